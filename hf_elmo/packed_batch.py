"""A batch of sentences without padding, read step by step by both directions."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FORWARD, BACKWARD = 0, 1


class Steps(NamedTuple):
    """Some consecutive steps of one direction.

    Attributes:
        sizes: how many sentences have a word at each step.
        positions: the positions read, step by step, among those of all sentences one after the other.
    """

    sizes: list[int]
    positions: NDArray[np.int64]


class PackedBatch:
    """In which order the directions read the positions of sentences that lie one after the other.

    At each step a direction reads one position of every sentence that is long enough, the longest sentences first: the
    forward direction from each sentence's begin, the backward direction from its end.

    Args:
        lengths: positions of each sentence, boundaries included.
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        given = np.asarray(lengths, dtype=np.int64)  # (B,)
        order = np.argsort(-given, kind="stable")
        self._lengths = given[order]
        self._starts = (given.cumsum() - given)[order]
        steps = np.arange(int(given.max(initial=0)))
        self._sizes = np.searchsorted(-self._lengths, -steps, side="left")  # sentences longer than the step
        self.num_sentences = len(given)
        self.num_positions = int(given.sum())

    def steps(self, direction: int, max_positions: int) -> Iterator[Steps]:
        """All steps of a direction, as many at a time as have at most `max_positions` positions, but at least one."""
        ends = self._sizes.cumsum()
        first = 0
        while first < len(ends):
            before = ends[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(ends, before + max_positions, side="right")))
            yield self._steps(direction, first, last)
            first = last

    def _steps(self, direction: int, first: int, last: int) -> Steps:
        sizes = self._sizes[first:last]
        step = np.repeat(np.arange(first, last), sizes)  # (N,)
        row = np.arange(len(step)) - np.repeat(sizes.cumsum() - sizes, sizes)  # (N,) longest sentence first
        offset = step if direction == FORWARD else self._lengths[row] - 1 - step
        return Steps(sizes.tolist(), self._starts[row] + offset)
