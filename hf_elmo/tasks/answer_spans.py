"""Where in the words of a context an answer is: from characters to words, and from scores to the best span."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Offsets = Sequence[tuple[int, int]]


def words_of_answer(offsets: Offsets, start: int, end: int) -> tuple[int, int] | None:
    """The first and the last word that hold any character from `start` to `end`, the last not counted.

    Args:
        offsets: of each word of the context its first character, and the one after its last.
        start, end: of the answer.

    Returns:
        indices of words, or None where the words do not reach the answer's end
    """
    inside = [place for place, (first, last) in enumerate(offsets) if first < end and last > start]
    if not inside or offsets[inside[-1]][1] < end:
        return None
    return inside[0], inside[-1]


def best_span(
    start_scores: NDArray[np.floating], end_scores: NDArray[np.floating], *, max_words: int
) -> tuple[int, int]:
    """The first and the last word of the span with the highest sum of both scores.

    Args:
        start_scores, end_scores: of each word of the context to begin and to end the answer.
        max_words: of a span.

    Shape:
        start_scores, end_scores (S,), S at least 1
    """
    sums = start_scores[:, None].astype(np.float64) + end_scores[None, :]  # (S, S)
    length = np.arange(len(start_scores))[None, :] - np.arange(len(start_scores))[:, None] + 1
    sums[(length < 1) | (length > max_words)] = -np.inf
    start, end = np.unravel_index(sums.argmax(), sums.shape)
    return int(start), int(end)
