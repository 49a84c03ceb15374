"""The first pass over the text: words numbered as they are first seen, counted, and spooled to disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from hf_elmo.pretraining.chunks import Chunk, TokenisedChunk
from hf_elmo.pretraining.shards import TRAIN


class SpooledChunk(NamedTuple):
    """Where a tokenised chunk lies in the spool: starts and ends, in numbers, of its words and sentence
    lengths.
    """

    source: str
    words: slice
    lengths: slice


@dataclass
class SourceTotals:
    """How much text an epoch reads of a source, which it may read several times."""

    times: int = 1
    tokens: int = 0
    sentences: int = 0
    documents: int = 0


@dataclass
class SplitTotals:
    """What the first pass learns of one split; `counts` (distinct words so far,) int64, or shorter."""

    counts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    sources: dict[str, SourceTotals] = field(default_factory=dict)
    chunks: list[SpooledChunk] = field(default_factory=list)

    def add_counts(self, rows: np.ndarray, counts: np.ndarray, size: int) -> None:
        """Adds `counts` (n,) to the distinct words `rows` (n,), of which there are `size` by now."""
        if len(self.counts) < size:
            self.counts = np.concatenate([self.counts, np.zeros(2 * size - len(self.counts), np.int64)])
        self.counts[rows] += counts  # `rows` has no duplicates

    def total(self, what: str) -> int:
        """The sum of one of the totals over all sources."""
        return sum(getattr(source, what) for source in self.sources.values())


class FirstPass:
    """Gives every word a provisional row in the order of first sight, counts, and spools the rows to disk."""

    def __init__(self, folder: Path, first_words: Sequence[str]) -> None:
        self.table = {word: row for row, word in enumerate(first_words)}
        self.splits: dict[str, SplitTotals] = {TRAIN: SplitTotals()}
        self.words_seen = 0
        self.sentences_seen = 0
        self.kinds: set[bool] = set()
        self.spooled_words = folder / "words.spool"
        self.spooled_lengths = folder / "lengths.spool"
        self._words_file: BinaryIO = self.spooled_words.open("wb")
        self._lengths_file: BinaryIO = self.spooled_lengths.open("wb")

    def add(self, chunk: Chunk, tokenised: TokenisedChunk) -> None:
        """Counts a tokenised chunk and writes it to the spool."""
        self.kinds.add(chunk.is_tokenised)
        table = self.table
        rows = np.array([table.setdefault(word, len(table)) for word in tokenised.distinct], np.int32)
        split = self.splits.setdefault(chunk.split, SplitTotals())
        split.add_counts(rows, tokenised.counts * chunk.times, len(table))
        words = rows[tokenised.words] if len(rows) else tokenised.words
        words.tofile(self._words_file)
        tokenised.lengths.tofile(self._lengths_file)
        spooled = SpooledChunk(
            chunk.source,
            slice(self.words_seen, self.words_seen + len(words)),
            slice(self.sentences_seen, self.sentences_seen + len(tokenised.lengths)),
        )
        split.chunks += [spooled] * chunk.times
        self.words_seen += len(words)
        self.sentences_seen += len(tokenised.lengths)
        totals = split.sources.setdefault(chunk.source, SourceTotals())
        totals.times = chunk.times
        totals.tokens += len(words) * chunk.times
        totals.sentences += len(tokenised.lengths) * chunk.times
        totals.documents += chunk.documents * chunk.times

    def close(self) -> None:
        """Closes the spool files."""
        self._words_file.close()
        self._lengths_file.close()
