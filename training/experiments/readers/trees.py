"""The Stanford Sentiment Treebank's bracketed trees."""

import re
from pathlib import Path
from typing import NamedTuple

_LEAF = re.compile(r"\((\d) ([^()\s]+)\)")


class Scored(NamedTuple):
    """A sentence and its class, from 0 (very negative) to 4."""

    words: list[str]
    label: int


def read_trees(path: Path) -> list[Scored]:
    """The whole sentences, with the label of the root.

    Raises:
        ValueError: a line that is no tree.
    """
    sentences = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        words = [_unescaped(word) for _, word in _LEAF.findall(line)]
        if not re.match(r"\([0-4] ", line) or not words:
            raise ValueError(f"{path}, line {number}: got {line[:40]!r}; expected a tree such as (3 (2 a) (4 b)).")
        sentences.append(Scored(words, int(line[1])))
    return sentences


def _unescaped(word: str) -> str:
    return word.replace("-LRB-", "(").replace("-RRB-", ")").replace("\\/", "/").replace("\\*", "*")
