"""Natural language inference: a premise, a hypothesis, and how they stand to each other."""

import json
import zlib
from pathlib import Path
from typing import NamedTuple

RELATIONS = ("entailment", "neutral", "contradiction")
_PARTS = 5


class Pair(NamedTuple):
    """Two raw sentences and the number of their relation in `RELATIONS`."""

    premise: str
    hypothesis: str
    label: int


def read_pairs(path: Path) -> list[Pair]:
    """JSON lines with premise, hypothesis and label.

    Raises:
        ValueError: a label that is none.
    """
    pairs = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        entry = json.loads(line)
        if entry["label"] not in RELATIONS:
            raise ValueError(f"{path}, line {number}: got {entry['label']!r}; expected one of {', '.join(RELATIONS)}.")
        pairs.append(Pair(entry["premise"], entry["hypothesis"], RELATIONS.index(entry["label"])))
    return pairs


def split_by_premise(pairs: list[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Four fifths and one fifth; a premise and all its hypotheses are on one side."""
    train: list[Pair] = []
    test: list[Pair] = []
    for pair in pairs:
        (train if zlib.crc32(pair.premise.encode()) % _PARTS else test).append(pair)
    return train, test
