"""Files with a word and its labels a line, and an empty line between sentences: CoNLL-2003, W-NUT 2017."""

from pathlib import Path
from typing import NamedTuple


class Tagged(NamedTuple):
    """A sentence with one label for each word."""

    words: list[str]
    labels: list[str]


def read_columns(path: Path) -> list[Tagged]:
    """First column words, last column entities, as B- and I- with a B- at every entity's begin (IOB2).

    Raises:
        ValueError: a line with one column only.
    """
    sentences: list[Tagged] = []
    words: list[str] = []
    labels: list[str] = []
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], start=1):
        columns = line.split()
        if columns and columns[0] != "-DOCSTART-":
            if len(columns) == 1:
                raise ValueError(f"{path}, line {number}: got {line!r}; expected a word and its label.")
            words.append(columns[0])
            labels.append(columns[-1])
        elif words:
            sentences.append(Tagged(words, to_iob2(labels)))
            words, labels = [], []
    return sentences


def to_iob2(labels: list[str]) -> list[str]:
    """Every entity's first label with B-; in CoNLL-2003's files only those have it that follow one of their kind."""
    previous = "O"
    fixed = []
    for label in labels:
        begins = label.startswith("I-") and (previous == "O" or previous[2:] != label[2:])
        fixed.append(f"B-{label[2:]}" if begins else label)
        previous = label
    return fixed


def entities(labels: list[str]) -> set[tuple[int, int, str]]:
    """Begin, end and kind of every entity; an I- that continues nothing begins one."""
    found = set()
    start = None
    fixed = to_iob2(labels)
    for place, label in enumerate([*fixed, "O"]):
        if start is not None and not label.startswith("I-"):
            found.add((start, place, fixed[start][2:]))
            start = None
        if label.startswith("B-"):
            start = place
    return found
