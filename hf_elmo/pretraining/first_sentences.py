"""The beginning of a split of a prepared corpus, in whole sentences."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hf_elmo.pretraining.shards import PreparedCorpus, Shard


@dataclass(frozen=True)
class FirstSentences(PreparedCorpus):
    """A prepared corpus of which only the first sentences of one split are there.

    Args:
        source: the whole corpus.
        sentences_of_file: how many sentences of each shard are kept.
    """

    source: PreparedCorpus
    sentences_of_file: dict[str, int]

    @cached_property
    def words(self) -> list[str]:
        """All distinct words of the whole corpus."""
        return self.source.words

    @cached_property
    def counts(self) -> np.ndarray:
        """(words,) int64: occurrences in the training text of the whole corpus."""
        return self.source.counts

    def read_shard(self, file: str) -> Shard:
        """Reads the kept part of one shard.

        Raises:
            ValueError: a damaged file.
        """
        words, offsets = self.source.read_shard(file)
        kept = offsets[: self.sentences_of_file[file] + 1]
        return Shard(words[: kept[-1]], kept)


def first_sentences(prepared: PreparedCorpus, split: str, num_words: int | None) -> PreparedCorpus:
    """The corpus reduced to one split, and of that to the first sentences with `num_words` words together.

    The sentence in which the number is reached is the last one.  The report counts what is kept.

    Args:
        prepared: the corpus.
        split: which part of it.
        num_words: how much to keep; None for all.

    Raises:
        ValueError: no such split, or no words asked for.
    """
    if num_words is not None and num_words < 1:
        raise ValueError(f"got {num_words} words to keep of {split!r}, expected at least 1, or None for all")
    whole = prepared.split_report(split)
    sentences_of_file: dict[str, int] = {}
    tokens = unknown = 0
    for file in prepared.shard_files(split):
        if num_words is not None and tokens >= num_words:
            break
        words, offsets = prepared.read_shard(file)
        kept = len(offsets) - 1
        if num_words is not None:
            kept = min(kept, int((offsets < num_words - tokens).sum()))
        sentences_of_file[file] = kept
        unknown += int((words[: offsets[kept]] >= prepared.vocab_size).sum())
        tokens += int(offsets[kept])
    sentences = sum(sentences_of_file.values())
    part = {
        **whole,
        "tokens": tokens,
        "sentences": sentences,
        "predictions_per_direction": tokens + sentences,
        "oov_tokens": unknown,
        "oov_rate": round(unknown / max(1, tokens), 6),
        "files": list(sentences_of_file),
    }
    return FirstSentences(prepared.path, {**prepared.report, "splits": {split: part}}, prepared, sentences_of_file)
