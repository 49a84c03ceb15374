"""Tagged sentences from files in columns: a word a line, an empty line after each sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hf_elmo.tasks.numbered_lines import numbered_lines, suffix_of

_DOCUMENT = "-DOCSTART-"
_CONLLU_SUFFIXES = (".conllu", ".conllup")
# CoNLL-U: ID FORM LEMMA UPOS ...
_CONLLU_WORD, _CONLLU_TAG = 1, 3


class TaggedSentence(NamedTuple):
    """The words of a sentence and a tag for each.

    Attributes:
        words, tags: equally many.
    """

    words: list[str]
    tags: list[str]


def read_conll(
    path: str | Path, *, word_column: int | None = None, tag_column: int | None = None
) -> list[TaggedSentence]:
    """All sentences of a file, plain or `.gz`.

    Columns stand between tabs where a line has one, else between spaces.  Lines that begin with `-DOCSTART-` are left
    out; so are, in a file named `.conllu`, comments, ranges of words (`3-4`) and empty nodes (`3.1`).

    Args:
        path: the file.
        word_column, tag_column: from 0 on, or from the end with -1; by default the first and the last, in `.conllu`
            those of the form and of the universal part of speech.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no sentence at all; or a line, which is named, with too few columns or another number of them.
    """
    conllu = suffix_of(path) in _CONLLU_SUFFIXES
    word = word_column if word_column is not None else (_CONLLU_WORD if conllu else 0)
    tag = tag_column if tag_column is not None else (_CONLLU_TAG if conllu else -1)
    sentences, words, tags = [], [], []
    for columns in _rows(Path(path), conllu=conllu, needed=(word, tag)):
        if columns:
            words.append(columns[word])
            tags.append(columns[tag])
        elif words:
            sentences.append(TaggedSentence(words, tags))
            words, tags = [], []
    if words:
        sentences.append(TaggedSentence(words, tags))
    if not sentences:
        raise ValueError(
            f"{path}: got no sentence; expected a word and its tag a line, an empty line between sentences."
        )
    return sentences


def _rows(path: Path, *, conllu: bool, needed: tuple[int, int]) -> Iterator[list[str]]:
    """The columns of each word; none between sentences."""
    width, first = 0, 0
    for number, line in numbered_lines(path):
        text = line.rstrip("\r\n")
        if not text.strip():
            yield []
            continue
        if text.startswith(_DOCUMENT) or (conllu and text.startswith("#")):
            continue
        columns = text.split("\t") if "\t" in text else re.split(" +", text.strip(" "))
        if not width:
            width, first = len(columns), number
            _check_columns(needed, width, where=f"{path}: line {number}")
        if len(columns) != width:
            raise ValueError(
                f"{path}: line {number}: got {len(columns)} columns ({text[:60]!r}); expected {width}, as in line "
                f"{first}."
            )
        if conllu and not columns[0].isdecimal():
            continue
        for column in needed:
            if not columns[column]:
                raise ValueError(f"{path}: line {number}: got nothing in column {column}; expected a word and its tag.")
        yield columns


def _check_columns(needed: tuple[int, int], width: int, *, where: str) -> None:
    for name, column in zip(("word_column", "tag_column"), needed, strict=True):
        if not -width <= column < width:
            raise ValueError(f"{where}: got {width} columns; expected {name} = {column} from {-width} to {width - 1}.")
    if needed[0] % width == needed[1] % width:
        raise ValueError(
            f"{where}: got {width} column{'s' if width > 1 else ''}, of which word_column and tag_column are the same; "
            "expected a column of words and another of tags."
        )
