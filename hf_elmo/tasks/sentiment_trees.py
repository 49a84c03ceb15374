"""The Stanford Sentiment Treebank's trees: a class from 0 to 4 at every phrase (Socher et al. 2013)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, NamedTuple

from hf_elmo.tasks.labelled_texts import LabelledText
from hf_elmo.tasks.numbered_lines import numbered_lines

NumClasses = Literal[2, 5]
_TOKEN = re.compile(r"[()]|[^\s()]+")
_CLASSES = 5
_NEUTRAL = 2
_ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


class Phrase(NamedTuple):
    """Words and their class, 0 (very negative) to 4 (very positive)."""

    words: list[str]
    label: int


def read_trees(path: str | Path, *, num_classes: NumClasses = 5, phrases: bool = False) -> list[LabelledText]:
    """The sentences of a file with one tree a line, such as `(3 (2 It) (4 (2 's) (4 good)))`.

    Args:
        path: the file, plain or `.gz`.
        num_classes: 5, or 2: `negative` and `positive`, and what is neutral is left out.
        phrases: also every phrase within a sentence, words included, as is usual for training.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no tree at all, or a line, which is named, that is none.
    """
    if num_classes not in (2, _CLASSES):
        raise ValueError(f"num_classes: got {num_classes}; expected 2 or {_CLASSES}.")
    texts = []
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        try:
            found = parse_tree(line)
        except ValueError as error:
            raise ValueError(f"{path}: line {number}: {error}") from error
        for words, label in found if phrases else found[:1]:
            name = str(label) if num_classes == _CLASSES else _polarity(label)
            if name is not None:
                texts.append(LabelledText(words, None, name))
    if not texts:
        raise ValueError(f"{path}: got no sentence; expected a tree such as (3 (2 It) (4 (2 's) (4 good))) a line.")
    return texts


def parse_tree(text: str) -> list[Phrase]:
    """All phrases of a tree, the whole first, the others by their begins, longer ones first.

    Raises:
        ValueError: a bracket too few or too many, a node without a class from 0 to 4, or without words.
    """
    words: list[str] = []
    open_nodes: list[int] = []  # places in `found`
    found: list[tuple[int, int, int]] = []  # label, first word, last word + 1
    tokens = _TOKEN.findall(text)
    place = 0
    while place < len(tokens):
        token = tokens[place]
        if token == "(":
            if found and not open_nodes:
                raise ValueError(f"got more after the tree's end ({' '.join(tokens[place : place + 5])!r}).")
            label = tokens[place + 1] if place + 1 < len(tokens) else "the line's end"
            if label not in map(str, range(_CLASSES)):
                raise ValueError(f"got {label!r} after '('; expected a class from 0 to {_CLASSES - 1}.")
            open_nodes.append(len(found))
            found.append((int(label), len(words), -1))
            place += 1
        elif not open_nodes:
            raise ValueError(f"got {token!r} outside of brackets; expected a tree such as (3 (2 It) (4 works)).")
        elif token == ")":
            node = open_nodes.pop()
            label_number, first, _ = found[node]
            if first == len(words):
                raise ValueError("got a node without words.")
            found[node] = (label_number, first, len(words))
        else:
            words.append(_ESCAPES.get(token, token.replace("\\/", "/").replace("\\*", "*")))
        place += 1
    if open_nodes or not found:
        raise ValueError(f"got {len(open_nodes)} brackets that are not closed; expected one whole tree.")
    return [Phrase(words[first:end], label) for label, first, end in found]


def _polarity(label: int) -> str | None:
    if label == _NEUTRAL:
        return None
    return "negative" if label < _NEUTRAL else "positive"
