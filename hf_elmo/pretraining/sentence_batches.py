"""Batches of whole sentences from a prepared corpus, each independent of the others.

Needs neither torch nor spaCy.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
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
        rank, world_size: process r takes every `world_size`-th batch of a shard from the r-th on.
        max_characters_per_word: C.

    Raises:
        ValueError: sizes out of range, no such split; when read: not a batch for every process.
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
        self._counted = (-1, 0)  # a shard's number, and how many batches this process takes from it

    def __iter__(self) -> Iterator[Batch]:
        """From where the last iteration or `load_state_dict` left off; after a whole pass, from the start."""
        files = self.prepared.shard_files(self.split)
        read = 0  # in this epoch
        while True:
            epoch, position, done = self._place
            if position == len(files):
                self._place = (epoch + 1, 0, 0)
                if not self.endless:
                    return
                self._check_any(read)
                read = 0
                continue
            number = self._number(epoch, position)
            shard = self.prepared.read_shard(files[number])
            batches = self._batches_of_shard(shard, epoch, number)
            self._counted = (number, len(batches))
            read += len(batches)
            for batch in range(done, len(batches)):
                self.batches += 1
                self._place = (epoch, position, batch + 1)
                yield self._batch(shard, batches[batch])
            self._place = (epoch, position + 1, 0)

    @property
    def epoch(self) -> float:
        """Epochs read so far, as a fraction."""
        epoch, position, done = self._place
        files = self.prepared.shard_files(self.split)
        return epoch + (position + (done / self._count(epoch, position) if done else 0)) / len(files)

    @property
    def batches_per_epoch(self) -> int:
        """Batches of a process after which the processes together have read about every sentence."""
        return max(1, self._all_batches // self._world_size)

    @property
    def predictions_per_batch(self) -> float:
        """Words that a batch predicts in each direction, on average over an epoch."""
        return int(self.prepared.split_report(self.split)["predictions_per_direction"]) / self._all_batches

    def state_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {"identity": dict(self._identity), "batches": self.batches, "place": list(self._place)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next iteration goes on exactly where `state_dict` was taken.

        Raises:
            ValueError: the state of other data or settings, or of streams.
        """
        if "place" not in state:
            raise ValueError("got the data state of streams, expected one of sentences; resume with text_as streams")
        check_identity(state["identity"], self._identity)
        self.batches = int(state["batches"])
        epoch, position, done = state["place"]
        self._place = (int(epoch), int(position), int(done))

    @cached_property
    def _all_batches(self) -> int:
        """Of an epoch and all processes."""
        return sum(
            len(self._cuts(np.sort(self.prepared.sentence_lengths(file) + 2)[::-1]))
            for file in self.prepared.shard_files(self.split)
        )

    def _number(self, epoch: int, position: int) -> int:
        return int(self._order(len(self.prepared.shard_files(self.split)), epoch, 0)[position])

    def _count(self, epoch: int, position: int) -> int:
        """Batches that this process takes from a shard; known without counting while it reads from it."""
        number = self._number(epoch, position)
        if self._counted[0] != number:
            lengths = self.prepared.sentence_lengths(self.prepared.shard_files(self.split)[number])
            batches = self._cuts(np.sort(lengths + 2)[::-1])
            self._counted = (number, len(batches[self._rank :: self._world_size]))
        return self._counted[1]

    def _check_any(self, read: int) -> None:
        if not read:
            raise ValueError(
                f"got no batch for process {self._rank} of {self._world_size} in a whole epoch of {self.split!r}, "
                f"expected at least one; choose fewer processes or less than {self.words_per_batch} words a batch"
            )

    def _cuts(self, widths: np.ndarray) -> list[tuple[int, int]]:
        """Where batches begin and end among sentences of falling width, boundaries counted."""
        cuts, begin = [], 0
        while begin < len(widths):
            end = min(len(widths), begin + max(1, self.words_per_batch // int(widths[begin])))
            cuts.append((begin, end))
            begin = end
        return cuts

    def _batches_of_shard(self, shard: Shard, epoch: int, number: int) -> list[np.ndarray]:
        order = self._order(shard.sentences, epoch, 1 + number)
        widths = np.diff(shard.offsets)[order] + 2
        by_length = np.argsort(-widths, kind="stable")
        batches = [order[by_length[begin:end]] for begin, end in self._cuts(widths[by_length])]
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
