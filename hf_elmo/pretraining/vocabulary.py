"""The table of distinct words: order, size of the vocabulary, and the spelling of its words as character ids.

A row is the number of a word's line in the file, counted from 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hf_elmo.character_ids import (
    BEGIN_SENTENCE,
    BEGIN_WORD,
    BOS_WORD,
    END_SENTENCE,
    END_WORD,
    EOS_WORD,
    PAD_CHARACTER,
)
from hf_elmo.vocabulary_file import SPECIAL_WORDS

BOS_ROW, EOS_ROW, UNK_ROW = 0, 1, 2


def order_by_frequency(counts: Mapping[str, int], *, first: Sequence[str] = SPECIAL_WORDS) -> list[str]:
    """The words of `counts`: first those of `first`, then by falling count, ties by their letters."""
    leading = set(first)
    rest = sorted((word for word in counts if word not in leading), key=lambda word: (-counts[word], word))
    return [*first, *rest]


def vocabulary_size_for(counts: np.ndarray, *, vocab_size: int | None = None, min_count: int | None = None) -> int:
    """How many lines of the word table form the LM vocabulary, the three special words included.

    Args:
        counts: (words in the table,) occurrences in the training text, falling after the special words.
        vocab_size: at most so many lines; words that the training text never has are left out in any case.
        min_count: words seen at least so often.

    Raises:
        ValueError: both limits, or a limit that leaves no word.
    """
    if vocab_size is not None and min_count is not None:
        raise ValueError(f"got vocab_size={vocab_size} and min_count={min_count}, expected only one of them")
    seen_often_enough = int((counts[len(SPECIAL_WORDS) :] >= max(1, min_count or 1)).sum())
    size = len(SPECIAL_WORDS) + seen_often_enough
    if vocab_size is not None:
        size = min(size, vocab_size)
    if size <= len(SPECIAL_WORDS):
        raise ValueError(
            f"got a vocabulary of {size} words (vocab_size={vocab_size}, min_count={min_count}), "
            f"expected more than the three special ones {SPECIAL_WORDS}; raise vocab_size or lower min_count"
        )
    return size


class SpelledWords:
    """The words of a table as bytes, from which the character ids of any rows are made without a Python loop.

    Takes some ten bytes a word, where a table of character ids would take fifty to four hundred.

    Args:
        words: the table; ``<S>`` and ``</S>`` give the boundary rows, all others are spelled.
        max_characters_per_word: C; a word's bytes are cut at C - 2.
    """

    def __init__(self, words: Sequence[str], *, max_characters_per_word: int = 50) -> None:
        self.max_characters_per_word = max_characters_per_word
        marks = {BOS_WORD: BEGIN_SENTENCE, EOS_WORD: END_SENTENCE}
        self._marks = {row: marks[word] for row, word in enumerate(words) if word in marks}
        spelled = [b"?" if word in marks else word.encode("utf-8")[: max_characters_per_word - 2] for word in words]
        self._lengths = np.fromiter(map(len, spelled), np.int64, len(spelled))  # (words,)
        self._starts = np.concatenate([[0], np.cumsum(self._lengths)])  # (words + 1,)
        room = np.zeros(max_characters_per_word, np.uint8)  # so that a window of C bytes fits behind every start
        self._bytes = np.concatenate([np.frombuffer(b"".join(spelled), np.uint8), room])

    def __len__(self) -> int:
        return len(self._lengths)

    def character_ids(self, rows: np.ndarray) -> np.ndarray:
        """Character ids (n, C) int64 of the words in `rows` (n,), as `hf_elmo.character_ids` gives them."""
        C = self.max_characters_per_word
        lengths = self._lengths[rows][:, None]  # (n, 1)
        positions = np.arange(C - 1)[None, :]  # (1, C - 1)
        letters = self._bytes[self._starts[rows][:, None] + positions]  # (n, C - 1)
        ids = np.empty((len(rows), C), np.int64)
        ids[:, 0] = BEGIN_WORD
        ids[:, 1:] = np.where(positions < lengths, letters.astype(np.int64) + 1, PAD_CHARACTER)
        np.put_along_axis(ids, lengths + 1, END_WORD, axis=1)
        for row, mark in self._marks.items():
            ids[rows == row, 1] = mark
        return ids
