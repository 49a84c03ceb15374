"""Train a tagger of words on files in columns: `python training/run_ner.py --help`."""

import sys

from hf_elmo.tasks.ner import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
