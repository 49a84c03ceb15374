"""The commands of `python -m spacy_elmo`, one file each."""
