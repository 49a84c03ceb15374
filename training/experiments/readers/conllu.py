"""Universal Dependencies' CoNLL-U: syntactic words and their universal parts of speech."""

import gzip
from pathlib import Path

from experiments.readers.columns import Tagged


def read_conllu(path: Path) -> list[Tagged]:
    """Syntactic words, such as "do" and "n't", which are spaCy's tokens too.

    Lines of multiword tokens (1-2) and of empty nodes (1.1) carry no part of speech and are passed over.

    Raises:
        ValueError: a line without ten columns.
    """
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text(encoding="utf-8")
    sentences: list[Tagged] = []
    words: list[str] = []
    labels: list[str] = []
    for number, line in enumerate([*text.split("\n"), ""], start=1):
        if line and not line.startswith("#"):
            columns = line.split("\t")
            if len(columns) != 10:
                raise ValueError(f"{path}, line {number}: got {len(columns)} columns; expected 10.")
            if columns[0].isdecimal():
                words.append(columns[1])
                labels.append(columns[3])
        elif not line and words:
            sentences.append(Tagged(words, labels))
            words, labels = [], []
    return sentences
