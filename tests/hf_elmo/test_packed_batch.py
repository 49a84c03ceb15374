import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.packed_batch import BACKWARD, FORWARD, PackedBatch

directions = pytest.mark.parametrize("direction", [FORWARD, BACKWARD])


@directions
@given(lengths=st.lists(st.integers(0, 9), max_size=7), most=st.integers(1, 30))
def test_every_sentence_is_read_once_and_in_order(direction: int, lengths: list[int], most: int) -> None:
    batch = PackedBatch(lengths)
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    seen: list[list[int]] = [[] for _ in lengths]
    before = len(lengths)
    for sizes, positions in batch.steps(direction, most):
        assert sum(sizes) == len(positions)
        assert sum(sizes) <= most or len(sizes) == 1
        start = 0
        for size in sizes:
            assert 0 < size <= before
            for row, position in zip(order, positions[start : start + size], strict=False):
                seen[row].append(int(position))
            start, before = start + size, size
    ends = np.cumsum([0, *lengths])
    for row, length in enumerate(lengths):
        expected = list(range(ends[row], ends[row] + length))
        assert seen[row] == (expected if direction == FORWARD else expected[::-1])


@directions
def test_reads_are_as_long_as_they_may_be(direction: int) -> None:
    sizes = [steps.sizes for steps in PackedBatch([5, 3, 5]).steps(direction, 6)]
    assert sizes == [[3, 3], [3, 2], [2]]
    assert [steps.sizes for steps in PackedBatch([5, 3, 5]).steps(direction, 1)] == [[3], [3], [3], [2], [2]]
