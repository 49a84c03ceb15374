"""Train a question answering head on SQuAD's JSON: `python training/run_qa.py --help`."""

import sys

from hf_elmo.tasks.qa import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
