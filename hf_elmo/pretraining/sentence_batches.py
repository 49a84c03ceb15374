"""Batches of whole sentences from a prepared corpus, each independent of the others.

Needs neither torch nor spaCy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hf_elmo.pretraining.batches import NO_LABEL, Batch, DistinctWords, check_identity, check_rank, check_sizes
from hf_elmo.pretraining.shards import TRAIN, PreparedCorpus, Shard
from hf_elmo.pretraining.vocabulary import BOS_ROW, EOS_ROW


class SentenceBatches:
    """Batches of whole sentences of like length, each independent of the others.

    A batch has ``distinct_character_ids`` (N, C) with an all-zero row 0 for padding, ``distinct_index``,
    ``attention_mask`` and ``labels`` (B, T): the words of the sentences with ``<S>`` and ``</S>``, padded at
    the right. The labels are the word ids at their own places (the model shifts them for each direction),
    -100 at padding.

    Args:
        prepared: the corpus.
        split: which part of it.
        words_per_batch: B·T at most, padding and boundaries counted; a longer sentence makes a batch of its
            own.
        vocab_size: V (default: as chosen at preparation).
        seed: of all orders.
        endless: True: forever, everything shuffled anew in every epoch. False: one pass by shards and falling
            length.
        rank, world_size: process r takes every `world_size`-th batch from the r-th on.
        max_characters_per_word: C.

    Raises:
        ValueError: sizes out of range, no such split.
    """

    def __init__(
        self,
        prepared: PreparedCorpus,
        split: str = TRAIN,
        *,
        words_per_batch: int,
        vocab_size: int | None = None,
        seed: int = 0,
        endless: bool = True,
        rank: int = 0,
        world_size: int = 1,
        max_characters_per_word: int = 50,
    ) -> None:
        check_sizes(words_per_batch=words_per_batch, world_size=world_size)
        check_rank(prepared, split, rank, world_size)
        self.prepared = prepared
        self.split = split
        self.words_per_batch = words_per_batch
        self.endless = endless
        self.words = DistinctWords(prepared, vocab_size=vocab_size, max_characters_per_word=max_characters_per_word)
        self.batches = 0
        self._seed = seed
        self._rank = rank
        self._world_size = world_size
        self._identity = {
            "words_per_batch": words_per_batch,
            "seed": seed,
            "endless": endless,
            "split": split,
            "rank": rank,
            "world_size": world_size,
            "words_sha256": prepared.report["words_sha256"],
        }
        self._place = (0, 0, 0)  # epoch, position in its order of shards, batch of the shard

    def __iter__(self) -> Iterator[Batch]:
        """From where the last iteration or `load_state_dict` left off; after a whole pass, from the start."""
        files = self.prepared.shard_files(self.split)
        while True:
            epoch, position, done = self._place
            if position == len(files):
                self._place = (epoch + 1, 0, 0)
                if not self.endless:
                    return
                continue
            number = int(self._order(len(files), epoch, 0)[position])
            shard = self.prepared.read_shard(files[number])
            batches = self._batches_of_shard(shard, epoch, number)
            for batch in range(done, len(batches)):
                self.batches += 1
                self._place = (epoch, position, batch + 1)
                yield self._batch(shard, batches[batch])
            self._place = (epoch, position + 1, 0)

    @property
    def epoch(self) -> float:
        """Epochs read so far, in whole shards."""
        epoch, position, _ = self._place
        return epoch + position / len(self.prepared.shard_files(self.split))

    def state_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {"identity": dict(self._identity), "batches": self.batches, "place": list(self._place)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next iteration goes on exactly where `state_dict` was taken.

        Raises:
            ValueError: the state of other data or settings.
        """
        check_identity(state["identity"], self._identity)
        self.batches = int(state["batches"])
        epoch, position, done = state["place"]
        self._place = (int(epoch), int(position), int(done))

    def _batches_of_shard(self, shard: Shard, epoch: int, number: int) -> list[np.ndarray]:
        order = self._order(shard.sentences, epoch, 1 + number)
        positions = np.diff(shard.offsets)[order] + 2
        by_length = np.argsort(-positions, kind="stable")
        order, widths = order[by_length], positions[by_length].tolist()
        batches, begin = [], 0
        while begin < len(order):
            size = max(1, self.words_per_batch // widths[begin])
            batches.append(order[begin : begin + size])
            begin += size
        if self.endless:
            shuffled = np.random.default_rng([self._seed, epoch, 1 + number, 1]).permutation(len(batches))
            batches = [batches[index] for index in shuffled]
        return batches[self._rank :: self._world_size]

    def _batch(self, shard: Shard, sentences: np.ndarray) -> Batch:
        begins = shard.offsets[sentences][:, None]  # (B, 1)
        lengths = shard.offsets[sentences + 1][:, None] - begins  # (B, 1)
        places = np.arange(lengths.max() + 2)[None, :]  # (1, T)
        is_word = (places >= 1) & (places <= lengths)  # (B, T)
        is_padding = places > lengths + 1
        rows = shard.words[np.where(is_word, begins + places - 1, 0)]  # (B, T)
        rows = np.where(is_word, rows, np.where(places == 0, BOS_ROW, EOS_ROW))
        character_ids, index = self.words.distinct(rows)
        padding = np.zeros((1, character_ids.shape[1]), np.int64)
        return {
            "distinct_character_ids": np.concatenate([padding, character_ids]),
            "distinct_index": np.where(is_padding, 0, index + 1),
            "attention_mask": (~is_padding).astype(np.int64),
            "labels": np.where(is_padding, NO_LABEL, self.words.labels(rows)),
        }

    def _order(self, size: int, epoch: int, what: int) -> np.ndarray:
        if not self.endless:
            return np.arange(size)
        return np.random.default_rng([self._seed, epoch, what, 0]).permutation(size)
