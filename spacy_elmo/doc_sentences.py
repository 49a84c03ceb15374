"""Docs to the biLM's sentences, and sentences' vectors back to a doc's tokens."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from spacy.tokens import Doc

FloatArray: TypeAlias = npt.NDArray[np.float32]
Rows: TypeAlias = list[list[int]]


def sentence_rows(doc: Doc) -> Rows:
    """The token indices of each of the biLM's inputs.

    One input is a sentence where the doc has sentence boundaries, otherwise the whole doc.  Whitespace tokens are not
    shown to the biLM.
    """
    sentences = doc.sents if doc.has_annotation("SENT_START") else [doc]
    inputs = [[token.i for token in sentence if not token.is_space] for sentence in sentences]
    return [rows for rows in inputs if rows]


def sentence_words(docs: Sequence[Doc], rows: Sequence[Rows]) -> list[list[str]]:
    """The words of every input of every doc, in order."""
    return [[doc[i].text for i in sentence] for doc, own in zip(docs, rows, strict=True) for sentence in own]


def consume(arrays: list[FloatArray]) -> Iterator[FloatArray]:
    """Each array in order; none is held on to once it was given."""
    arrays.reverse()
    while arrays:
        yield arrays.pop()


def place_rows(vectors: Iterator[FloatArray], rows: Rows, *, shape: tuple[int, ...]) -> FloatArray:
    """Put the next sentences' vectors at their tokens' rows of a doc; whitespace keeps zeros."""
    if is_whole_doc(rows, shape[0]):
        whole = next(vectors)
        return whole if whole.flags.writeable else whole.copy()  # a cache's are not given away
    placed = np.zeros(shape, dtype=np.float32)
    for sentence in rows:
        placed[sentence] = next(vectors)
    return placed


def is_whole_doc(rows: Rows, tokens: int) -> bool:
    """Whether a doc is one input of the biLM, whose vectors are the doc's as they are: a long one is not copied."""
    return len(rows) == 1 and len(rows[0]) == tokens
