"""Measure what ELMo brings to the paper's tasks: `python training/evidence.py --help`."""

import sys

from experiments.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
