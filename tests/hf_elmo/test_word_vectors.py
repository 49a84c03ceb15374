"""Remembered words are the words; the table holds the last ones."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hf_elmo.word_vectors import WordVectors

CPU = torch.device("cpu")


def _rows(words: list[int]) -> np.ndarray:
    """Words that differ in their last character or in one of two bytes of it."""
    return np.array([[259, 7, word] for word in words], dtype=np.int64).reshape(len(words), 3)


def _vectors(capacity: int, log: list[int]) -> WordVectors:
    def compute(rows: Tensor) -> Tensor:
        log.extend(rows[:, 2].tolist())
        return torch.stack([rows[:, 2].float(), -rows[:, 2].float()], dim=1)

    return WordVectors(compute, capacity=capacity, device=CPU)


words = st.lists(st.sampled_from([1, 2, 3, 4, 5, 256, 257, 261]), unique=True, min_size=1, max_size=8)


@given(calls=st.lists(words, max_size=12), capacity=st.integers(0, 9))
def test_it_is_a_memory_of_the_last_words(calls: list[list[int]], capacity: int) -> None:
    """Against a list of words that is searched and cut."""
    log: list[int] = []
    vectors = _vectors(capacity, log)
    remembered: list[int] = []
    hits = misses = 0
    for call in calls:
        log.clear()
        found = vectors(_rows(call))
        np.testing.assert_array_equal(found, np.array([[word, -word] for word in call], dtype=np.float32))
        missing = [word for word in call if word not in remembered]
        assert log == missing
        known = [word for word in call if word in remembered]
        remembered = [word for word in remembered if word not in known] + known
        remembered += missing
        remembered = remembered[max(0, len(remembered) - capacity) :]
        hits, misses = hits + len(known), misses + len(missing)
        assert vectors.statistics == (hits, misses, len(remembered), capacity)


def test_what_is_returned_is_the_callers() -> None:
    vectors = _vectors(10, [])
    with torch.inference_mode():
        for _ in range(2):
            vectors(_rows([1, 2])).zero_()
        assert vectors(_rows([2])).tolist() == [[2.0, -2.0]]


def test_a_full_table_holds_no_more_rows_than_its_capacity() -> None:
    vectors = _vectors(3000, [])
    for start in range(0, 9000, 700):
        vectors(_rows(list(range(start, start + 700))))
    assert vectors.statistics.words == 3000
    assert vectors._table is not None
    assert len(vectors._table) == 3000


def test_the_hit_rate_and_forgetting() -> None:
    vectors = _vectors(10, [])
    assert vectors.statistics.hit_rate == 0
    vectors(_rows([1, 2, 3]))
    vectors(_rows([1]))
    assert vectors.statistics.hit_rate == 0.25
    vectors.clear()
    assert vectors.statistics == (0, 0, 0, 10)
    assert vectors(_rows([1])).tolist() == [[1.0, -1.0]]


@pytest.mark.parametrize("capacity", [5, 1000])
def test_threads_share_it(capacity: int) -> None:
    """With room for few words, so that slots change hands while others read them."""
    vectors = _vectors(capacity, [])
    barrier = threading.Barrier(4)

    def work(seed: int) -> int:
        generator = np.random.default_rng(seed)
        barrier.wait()
        for _ in range(150):
            call = generator.choice(40, size=generator.integers(1, 12), replace=False).tolist()
            assert vectors(_rows(call))[:, 0].tolist() == call
        return seed

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [0, 1, 2, 3]
    assert vectors.statistics.words <= capacity
