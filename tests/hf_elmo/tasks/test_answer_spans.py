"""Answers as words, and the best span, against a search of all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.tasks.answer_spans import best_span, words_of_answer


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, 3, (0, 0)), (4, 9, (1, 2)), (5, 6, (1, 1)), (0, 9, (0, 2)), (8, 12, None), (3, 4, None)],
)
def test_words_of_an_answer(start: int, end: int, expected: tuple[int, int] | None) -> None:
    """Words at 0-3, 4-7 and 7-9; a space is no word, and what goes beyond the last one is cut off."""
    assert words_of_answer([(0, 3), (4, 7), (7, 9)], start, end) == expected


@given(st.integers(1, 9), st.integers(1, 10), st.integers(0, 1000))
def test_best_span(length: int, max_words: int, seed: int) -> None:
    starts, ends = np.random.default_rng(seed).normal(size=(2, length))
    spans = [(s, e) for s in range(length) for e in range(s, min(length, s + max_words))]
    assert best_span(starts, ends, max_words=max_words) == max(spans, key=lambda span: starts[span[0]] + ends[span[1]])
