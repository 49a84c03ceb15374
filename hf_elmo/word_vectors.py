"""The token layer of words, remembered: a word's vector depends on its letters alone."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class WordCacheStatistics(NamedTuple):
    """How often a word's vector was there already; a word counts once per call or window of a stream.

    Attributes:
        hits: words found.
        misses: words computed.
        words: vectors held now.
        capacity: vectors held at most.
    """

    hits: int
    misses: int
    words: int
    capacity: int

    @property
    def hit_rate(self) -> float:
        """Share of words found, 0 before the first."""
        return self.hits / max(1, self.hits + self.misses)


class WordVectors:
    """Vectors of the words seen last, in one table, by their characters; safe to share between threads.

    A vector is the same, up to the rounding of float32 products of different shapes, whether it is computed or
    remembered, and with whichever other words it was computed.

    Args:
        compute: (U, C) character ids on the table's device → (U, P).
        capacity: how many words are remembered; those not used for longest go first.
    """

    def __init__(self, compute: Callable[[Tensor], Tensor], *, capacity: int, device: torch.device) -> None:
        self._compute = compute
        self._capacity = capacity
        self._device = device
        self._slots: OrderedDict[bytes, int] = OrderedDict()  # the word used last is the last
        self._table: Tensor | None = None  # (slots, P)
        self._hits = self._misses = 0
        self._lock = threading.Lock()

    def __call__(self, rows: NDArray[np.int64]) -> Tensor:
        """Vectors of distinct words.

        Shape:
            rows (U, C) → (U, P)
        """
        if self._capacity == 0:
            with self._lock:
                self._misses += len(rows)
            return self._compute(torch.from_numpy(rows).to(self._device))
        keys = _keys(rows)
        with self._lock:
            slots = [self._slots.get(key, -1) for key in keys]
            for key, slot in zip(keys, slots, strict=True):
                if slot >= 0:
                    self._slots.move_to_end(key)
            missing = [place for place, slot in enumerate(slots) if slot < 0]
            self._hits += len(keys) - len(missing)
            self._misses += len(missing)
            known = None
            if len(missing) < len(keys):
                assert self._table is not None
                # Words that are missing read row 0, and are overwritten below.
                known = self._table.index_select(0, torch.tensor(slots).clamp_(min=0).to(self._device))  # (U, P)
        if not missing:
            assert known is not None
            return known
        computed = self._compute(torch.from_numpy(rows[missing]).to(self._device))  # (missing, P)
        self._remember([keys[place] for place in missing], computed)
        if known is None:
            return computed
        return known.index_copy_(0, torch.tensor(missing).to(self._device), computed)

    @property
    def statistics(self) -> WordCacheStatistics:
        """Counts since these weights were first used."""
        with self._lock:
            return WordCacheStatistics(self._hits, self._misses, len(self._slots), self._capacity)

    def clear(self) -> None:
        """Forget all words and counts."""
        with self._lock:
            self._slots.clear()
            self._table = None
            self._hits = self._misses = 0

    def _remember(self, keys: list[bytes], vectors: Tensor) -> None:
        """Keep the last of them that fit."""
        keys, vectors = keys[-self._capacity :], vectors[-self._capacity :]
        with self._lock:
            slots = [self._slot(key) for key in keys]
            table = self._grown(vectors, 1 + max(slots))
            table.index_copy_(0, torch.tensor(slots).to(self._device), vectors)

    def _slot(self, key: bytes) -> int:
        """The word's own slot, a new one, or that of the word not used for longest."""
        slot = self._slots.pop(key, None)
        if slot is None:
            slot = self._slots.popitem(last=False)[1] if len(self._slots) == self._capacity else len(self._slots)
        self._slots[key] = slot
        return slot

    def _grown(self, like: Tensor, needed: int) -> Tensor:
        """The table with room for `needed` words; it doubles until it has its full capacity."""
        old = self._table
        if old is None or len(old) < needed:
            table = like.new_empty(min(self._capacity, max(2 * needed, 1024)), like.shape[1])  # (slots, P)
            if old is not None:
                table[: len(old)] = old
            self._table = old = table
        return old


def _keys(rows: NDArray[np.int64]) -> list[bytes]:
    """Each row's characters as bytes; no character id needs more than sixteen bits."""
    short = np.ascontiguousarray(rows, dtype=np.uint16)  # (U, C)
    length = short.itemsize * short.shape[1]
    joined = short.tobytes()
    return [joined[start : start + length] for start in range(0, len(joined), length)]
