"""Batches of continuous text from a prepared corpus, for truncated back-propagation.

Semantics as in bilm-tf's training. Needs neither torch nor spaCy.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from hf_elmo.pretraining.batches import NO_LABEL, Batch, DistinctWords, check_identity, check_rank, check_sizes
from hf_elmo.pretraining.shards import TRAIN, PreparedCorpus, Shard
from hf_elmo.pretraining.vocabulary import BOS_ROW, EOS_ROW

Shuffle = Literal["independent", "together"]
Direction = Literal["forward", "backward"]


class _Stream(NamedTuple):
    """What a direction reads, and what it is to predict: whole sentences, one after the other, both (n,)
    int32.

    A sentence of m words makes m + 1 pairs: the forward direction reads ``<S> w1 … wm`` and predicts ``w1 …
    wm </S>``; the backward direction reads ``</S> wm … w1`` and predicts ``wm … w1 <S>``.
    """

    inputs: np.ndarray
    targets: np.ndarray
    starts: list[int]  # sentences + 1


def _stream(shard: Shard, order: np.ndarray, direction: Direction) -> _Stream:
    """The sentences `order` of a shard as a direction reads them."""
    first, last = (BOS_ROW, EOS_ROW) if direction == "forward" else (EOS_ROW, BOS_ROW)
    begins = shard.offsets[order]
    lengths = shard.offsets[order + 1] - begins  # (sentences,)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths + 1)])  # (sentences + 1,)
    within = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths + 1)  # (n,) 0 at the boundary
    if direction == "forward":
        where = np.repeat(begins - 1, lengths + 1) + within
    else:
        where = np.repeat(begins + lengths, lengths + 1) - within
    is_boundary = within == 0
    where[is_boundary] = 0
    inputs = shard.words[where] if len(shard.words) else np.zeros(len(where), np.int32)
    inputs[is_boundary] = first
    targets = np.empty_like(inputs)
    targets[:-1] = inputs[1:]
    targets[starts[1:] - 1] = last
    return _Stream(inputs, targets, starts.tolist())


class _Reader:
    """Hands out whole sentences of one direction, shard by shard, forever or (`shuffled` False) once in file
    order.

    The order of an epoch is a function of (key, epoch) alone, so three numbers tell where the reader stands.
    """

    def __init__(
        self,
        prepared: PreparedCorpus,
        split: str,
        direction: Direction,
        *,
        key: tuple[int, ...],
        shuffled: bool,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.prepared = prepared
        self.files = prepared.shard_files(split)
        self.direction: Direction = direction
        self.key = key
        self.shuffled = shuffled
        self.rank = rank
        self.world_size = world_size
        self.epoch = 0
        self.shard = -1  # position in the epoch's order of shards
        self.sentence = 0
        self.stream = _Stream(np.zeros(0, np.int32), np.zeros(0, np.int32), [0])

    def take(self, pairs: int) -> tuple[np.ndarray, np.ndarray]:
        """The next whole sentences, as few as give `pairs` pairs; less at the end of a single pass."""
        inputs, targets = [], []
        while pairs > 0:
            starts = self.stream.starts
            if self.sentence == len(starts) - 1:
                if not self._open_next_shard():
                    break
                continue
            begin = starts[self.sentence]
            stop = min(bisect_left(starts, begin + pairs, self.sentence + 1), len(starts) - 1)
            end = starts[stop]
            inputs.append(self.stream.inputs[begin:end])
            targets.append(self.stream.targets[begin:end])
            pairs -= end - begin
            self.sentence = stop
        if not inputs:
            return np.zeros(0, np.int32), np.zeros(0, np.int32)
        return np.concatenate(inputs), np.concatenate(targets)

    @property
    def progress(self) -> float:
        """Epochs read so far, as a fraction."""
        of_shard = self.sentence / max(1, len(self.stream.starts) - 1)
        return self.epoch + (max(0, self.shard) + of_shard * (self.shard >= 0)) / len(self.files)

    def state(self) -> dict[str, int]:
        return {"epoch": self.epoch, "shard": self.shard, "sentence": self.sentence}

    def restore(self, state: dict[str, int]) -> None:
        self.epoch, self.shard = int(state["epoch"]), int(state["shard"])
        if self.shard >= 0:
            self._open_shard()
        self.sentence = int(state["sentence"])

    def _open_next_shard(self) -> bool:
        if self.shard + 1 == len(self.files):
            if not self.shuffled:
                return False
            self.epoch += 1
            self.shard = -1
        self.shard += 1
        self._open_shard()
        return True

    def _open_shard(self) -> None:
        number = int(self._order(len(self.files), 0)[self.shard])
        shard = self.prepared.read_shard(self.files[number])
        order = self._order(shard.sentences, 1 + number)[self.rank :: self.world_size]
        self.stream = _stream(shard, order, self.direction)
        self.sentence = 0

    def _order(self, size: int, what: int) -> np.ndarray:
        if not self.shuffled:
            return np.arange(size)
        return np.random.default_rng([*self.key, self.epoch, what]).permutation(size)


class _Rows:
    """B rows that each take the next sentences of one reader when they have read theirs."""

    def __init__(self, reader: _Reader, batch_size: int) -> None:
        self.reader = reader
        nothing = np.zeros(0, np.int32)
        self.inputs = [nothing] * batch_size
        self.targets = [nothing] * batch_size

    def next_block(self, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets, both (B, steps); behind the end of a single pass ``</S>`` without a target
        (-1).
        """
        inputs = np.full((len(self.inputs), steps), EOS_ROW, np.int32)
        targets = np.full((len(self.inputs), steps), -1, np.int32)
        for row in range(len(self.inputs)):
            missing = steps - len(self.inputs[row])
            if missing > 0:
                more_inputs, more_targets = self.reader.take(missing)
                self.inputs[row] = np.concatenate([self.inputs[row], more_inputs])
                self.targets[row] = np.concatenate([self.targets[row], more_targets])
            have = min(steps, len(self.inputs[row]))
            inputs[row, :have] = self.inputs[row][:have]
            targets[row, :have] = self.targets[row][:have]
            self.inputs[row] = self.inputs[row][have:]
            self.targets[row] = self.targets[row][have:]
        return inputs, targets

    def state(self) -> dict[str, Any]:
        """JSON-able: the reader's place and what is left in every row (part of one sentence each)."""
        left = [
            [*inputs.tolist(), *targets[-1:].tolist()]
            for inputs, targets in zip(self.inputs, self.targets, strict=True)
        ]
        return {**self.reader.state(), "rows": left}

    def restore(self, state: dict[str, Any]) -> None:
        self.reader.restore(state)
        rows = [np.array(row, np.int32) for row in state["rows"]]
        self.inputs = [row[:-1] for row in rows]
        self.targets = [row[1:] for row in rows]


class StreamBatches:
    """Endless batches of continuous text, as bilm-tf trains.

    Every row of a batch is a stream of its own that goes on in the next batch: it takes the next sentence
        when one id or
    less is left of the last. Forward and backward are two independent readers of the same shards: random
    order of shards without replacement, anew in every epoch, sentences shuffled within a shard. The last id
    of a sentence is only ever a target. There is no padding.

    With several processes each gives its own `rank`: all go through the shards and sentences in one common
    order, and process r takes every `world_size`-th sentence from the r-th on; together they read every
    sentence once an epoch.

    Args:
        prepared: the corpus.
        batch_size: B, rows.
        unroll_steps: T, positions a batch.
        vocab_size: V, lines of words.txt that are targets of their own (default: as chosen at preparation).
        seed: of all orders; (seed, rank) decides every batch.
        shuffle: "independent" (bilm-tf), or "together": both directions read the same sentences at the same
            time.
        split: which part of the corpus.
        rank, world_size: this process among those that train together.
        max_characters_per_word: C.

    Raises:
        ValueError: sizes out of range, no such split, fewer sentences than processes.
    """

    def __init__(
        self,
        prepared: PreparedCorpus,
        *,
        batch_size: int,
        unroll_steps: int,
        vocab_size: int | None = None,
        seed: int = 0,
        shuffle: Shuffle = "independent",
        split: str = TRAIN,
        rank: int = 0,
        world_size: int = 1,
        max_characters_per_word: int = 50,
    ) -> None:
        check_sizes(batch_size=batch_size, unroll_steps=unroll_steps, world_size=world_size)
        check_rank(prepared, split, rank, world_size)
        if shuffle not in ("independent", "together"):
            raise ValueError(f'got shuffle={shuffle!r}, expected "independent" or "together"')
        self.prepared = prepared
        self.batch_size = batch_size
        self.unroll_steps = unroll_steps
        self.split = split
        self.world_size = world_size
        self.words = DistinctWords(prepared, vocab_size=vocab_size, max_characters_per_word=max_characters_per_word)
        self.batches = 0
        self._identity = {
            "batch_size": batch_size,
            "seed": seed,
            "shuffle": shuffle,
            "split": split,
            "rank": rank,
            "world_size": world_size,
            "words_sha256": prepared.report["words_sha256"],
        }
        backward_key = 0 if shuffle == "together" else 1
        self._forward = _Rows(
            _Reader(prepared, split, "forward", key=(seed, 0), shuffled=True, rank=rank, world_size=world_size),
            batch_size,
        )
        self._backward = _Rows(
            _Reader(
                prepared,
                split,
                "backward",
                key=(seed, backward_key),
                shuffled=True,
                rank=rank,
                world_size=world_size,
            ),
            batch_size,
        )

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        self.batches += 1
        forward = self._forward.next_block(self.unroll_steps)
        backward = self._backward.next_block(self.unroll_steps)
        return _stream_batch(self.words, forward, backward)

    @property
    def epoch(self) -> float:
        """Epochs the forward direction has read, as a fraction."""
        return self._forward.reader.progress

    @property
    def batches_per_epoch(self) -> int:
        """Batches after which the processes together have predicted about every word in each direction."""
        predictions = int(self.prepared.split_report(self.split)["predictions_per_direction"])
        return max(1, predictions // (self.batch_size * self.unroll_steps * self.world_size))

    @property
    def predictions_per_batch(self) -> float:
        """Words that a batch predicts in each direction."""
        return self.batch_size * self.unroll_steps

    def state_dict(self) -> dict[str, Any]:
        """Where the streams stand: JSON-able, a few numbers for each row.

        `unroll_steps` and V may differ when going on from it.
        """
        return {
            "identity": dict(self._identity),
            "batches": self.batches,
            "forward": self._forward.state(),
            "backward": self._backward.state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on exactly where `state_dict` was taken.

        Raises:
            ValueError: the state of other data, or of another batch size, seed, shuffle, split, rank or world
                size; the state of sentences.
        """
        if "forward" not in state:
            raise ValueError("got the data state of sentences, expected one of streams; resume with text_as sentences")
        check_identity(state["identity"], self._identity)
        self.batches = int(state["batches"])
        self._forward.restore(state["forward"])
        self._backward.restore(state["backward"])


class HeldoutStreams:
    """One pass over a split in file order: every word predicted once in each direction, the state carried.

    B parallel streams as in bilm-tf's ``run_test``, except that nothing is dropped: a row that has no
    sentence left reads ``</S>`` with label -100, so no mask is needed. Iterating again starts again.

    Args and errors: as `StreamBatches`.
    """

    def __init__(
        self,
        prepared: PreparedCorpus,
        split: str,
        *,
        batch_size: int,
        unroll_steps: int,
        vocab_size: int | None = None,
        max_characters_per_word: int = 50,
    ) -> None:
        check_sizes(batch_size=batch_size, unroll_steps=unroll_steps)
        prepared.split_report(split)
        self.prepared = prepared
        self.split = split
        self.batch_size = batch_size
        self.unroll_steps = unroll_steps
        self.words = DistinctWords(prepared, vocab_size=vocab_size, max_characters_per_word=max_characters_per_word)

    def __iter__(self) -> Iterator[Batch]:
        forward, backward = (
            _Rows(_Reader(self.prepared, self.split, direction, key=(), shuffled=False), self.batch_size)
            for direction in ("forward", "backward")
        )
        while True:
            forward_block = forward.next_block(self.unroll_steps)
            if (forward_block[1] < 0).all():
                return
            yield _stream_batch(self.words, forward_block, backward.next_block(self.unroll_steps))


def _stream_batch(
    words: DistinctWords, forward: tuple[np.ndarray, np.ndarray], backward: tuple[np.ndarray, np.ndarray]
) -> Batch:
    character_ids, index = words.distinct(np.stack([forward[0], backward[0]]))  # (N, C), (2, B, T)
    labels = [np.where(targets < 0, NO_LABEL, words.labels(targets)) for _, targets in (forward, backward)]
    return {
        "distinct_character_ids": character_ids,
        "distinct_index": index[0],
        "labels": labels[0],
        "backward_distinct_index": index[1],
        "backward_labels": labels[1],
    }
