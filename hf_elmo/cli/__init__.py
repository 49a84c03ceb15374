"""The `hf-elmo` command, one file per sub-command: each offers `add_arguments(parser)` and `run(args)`."""
