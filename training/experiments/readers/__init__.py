"""Files of tasks to words and labels; one format a module."""
