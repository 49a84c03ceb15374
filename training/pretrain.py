"""Pretrain a biLM on a prepared corpus: `python training/pretrain.py --help`."""

import sys

from hf_elmo.pretraining.pretrain import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
