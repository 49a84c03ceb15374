"""Word-in-Context: one word in two sentences, in the same sense or not."""

from pathlib import Path
from typing import NamedTuple


class WordInTwo(NamedTuple):
    """Two sentences, where the word stands in each, and whether its sense is the same."""

    sentences: tuple[list[str], list[str]]
    places: tuple[int, int]
    same: bool


def read_wic(folder: Path, split: str) -> list[WordInTwo]:
    """The pairs of a split.

    Raises:
        ValueError: files of different lengths, or a place outside its sentence.
    """
    lines, labels = (
        (folder / split / f"{split}.{kind}.txt").read_text(encoding="utf-8").splitlines() for kind in ("data", "gold")
    )
    if len(lines) != len(labels):
        raise ValueError(f"{folder}/{split}: got {len(lines)} pairs and {len(labels)} labels; expected as many.")
    pairs = []
    for number, (line, label) in enumerate(zip(lines, labels, strict=True), start=1):
        _, _, places, first, second = line.split("\t")
        sentences = (first.split(), second.split())
        one, other = map(int, places.split("-"))
        if one >= len(sentences[0]) or other >= len(sentences[1]):
            raise ValueError(f"{folder}/{split}, line {number}: got {places}; expected places inside the sentences.")
        pairs.append(WordInTwo(sentences, (one, other), label.strip() == "T"))
    return pairs
