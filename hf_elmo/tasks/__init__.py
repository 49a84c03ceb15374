"""Training the task heads on local files: tagging, classification, question answering."""
