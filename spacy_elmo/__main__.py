"""`python -m spacy_elmo ["text" …]`, see [`spacy_elmo.demo`][spacy_elmo.demo]."""

import sys

from spacy_elmo.demo import main

if __name__ == "__main__":
    sys.exit(main())
