"""Train a classifier of sentences and pairs: `python training/run_classification.py --help`."""

import sys

from hf_elmo.tasks.classification import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
