"""Adapt a biLM to text of a domain: `python training/adapt.py --help`."""

import sys

from hf_elmo.pretraining.adapt import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
