"""A prepared corpus seen through the vocabulary of a model."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hf_elmo.pretraining.shards import TRAIN, PreparedCorpus, Shard


@dataclass(frozen=True)
class CorpusWithVocabulary(PreparedCorpus):
    """A prepared corpus whose word table begins with another vocabulary; its other words follow in their order.

    The shards on disk stay as they are: their rows are looked up in a table when they are read.

    Args:
        source: the corpus as it was prepared.
        first_words: the vocabulary.
    """

    source: PreparedCorpus
    first_words: tuple[str, ...]

    @cached_property
    def words(self) -> list[str]:
        """All distinct words: the vocabulary, whether the text has them or not, and those of the text."""
        known = set(self.first_words)
        return [*self.first_words, *(word for word in self.source.words if word not in known)]

    @cached_property
    def counts(self) -> np.ndarray:
        """(words,) int64: occurrences in the training text."""
        counts = np.zeros(len(self.words), np.int64)
        counts[self._rows] = self.source.counts
        return counts

    @cached_property
    def _rows(self) -> np.ndarray:
        """(words of the source,) int32: row of each in the new table."""
        places = {word: row for row, word in enumerate(self.words)}
        return np.fromiter((places[word] for word in self.source.words), np.int32, len(self.source.words))

    def read_shard(self, file: str) -> Shard:
        """Reads one shard, in rows of the new table.

        Raises:
            ValueError: a damaged file.
        """
        words, offsets = self.source.read_shard(file)
        return Shard(self._rows[words], offsets)


def with_vocabulary(prepared: PreparedCorpus, vocabulary: Sequence[str]) -> PreparedCorpus:
    """The corpus with `vocabulary` as the first words of its table, so that word ids are those of its model.

    The report counts the words outside the vocabulary anew.

    Args:
        prepared: any prepared corpus.
        vocabulary: as in a vocabulary file, `<S>`, `</S>`, `<UNK>` first.
    """
    if prepared.words[: len(vocabulary)] == list(vocabulary) and prepared.vocab_size == len(vocabulary):
        return prepared
    corpus = CorpusWithVocabulary(prepared.path, dict(prepared.report), prepared, tuple(vocabulary))
    table = "".join(f"{word}\n" for word in corpus.words).encode("utf-8")
    corpus.report.update(
        vocab_size=len(vocabulary),
        distinct_words=len(corpus.words),
        words_sha256=hashlib.sha256(table).hexdigest(),
        splits={split: {**part} for split, part in prepared.report["splits"].items()},
    )
    for split in corpus.splits:
        _count_unknown_anew(corpus, split)
    return corpus


def _count_unknown_anew(corpus: CorpusWithVocabulary, split: str) -> None:
    size = corpus.vocab_size
    if split == TRAIN:  # without reading all of it
        unknown = int(corpus.counts[size:].sum())
    else:
        unknown = sum(int((shard.words >= size).sum()) for shard in corpus.read_split(split))
    report = corpus.split_report(split)
    report["oov_tokens"] = unknown
    report["oov_rate"] = round(unknown / max(1, report["tokens"]), 6)
