"""`python -m spacy_elmo ["text" …]`, see [`spacy_elmo.demo`][spacy_elmo.demo]; or a command of `spacy_elmo.cli`."""

import sys

from spacy_elmo.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
