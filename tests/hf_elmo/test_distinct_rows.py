import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo import distinct_rows as module
from hf_elmo.distinct_rows import distinct_rows

matrices = st.integers(1, 5).flatmap(
    lambda width: st.lists(st.lists(st.integers(0, 3), min_size=width, max_size=width), min_size=1, max_size=30)
)


@given(matrices)
def test_every_row_is_found_again_and_none_twice(matrix: list[list[int]]) -> None:
    rows = torch.tensor(matrix)
    distinct, index = distinct_rows(rows)
    assert torch.equal(distinct[index], rows)
    assert sorted(map(tuple, distinct.tolist())) == sorted(set(map(tuple, matrix)))


def test_rows_that_share_a_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_hash_weights", lambda length, device: torch.ones(length, dtype=torch.int64))
    rows = torch.tensor([[1, 2], [2, 1], [1, 2], [0, 3]])  # all sums are 3
    distinct, index = distinct_rows(rows)
    assert torch.equal(distinct[index], rows)
    assert len(distinct) == 3
