"""The distinct rows of an integer matrix, so that the character CNN runs once per distinct word."""

import torch
from torch import Tensor

_LARGEST = 2**63 - 1


def distinct_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows and, for every row, which of them it is: `rows == distinct[index]`.

    Rows are grouped by a 64-bit hash, which one sort of N numbers can do where `torch.unique(dim=0)` compares whole
    rows; should two different rows ever share a hash, `torch.unique` decides, so the result is always exact.

    Shape:
        rows: (N, C) integers → distinct (U, C), index (N,)
    """
    weights = _hash_weights(rows.shape[1], rows.device)  # (C,)
    # Not a matrix product: CUDA has none for 64-bit integers.  Overflow wraps around, as a hash may.
    keys = (rows.long() * weights).sum(dim=1)  # (N,)
    unique_keys, index = torch.unique(keys, return_inverse=True)  # (U,), (N,)
    # Which of a group's rows is written does not matter if they are all equal, and that is checked.
    distinct = rows.new_empty((unique_keys.shape[0], rows.shape[1])).index_copy_(0, index, rows)  # (U, C)
    if torch.equal(distinct[index], rows):
        return distinct, index
    return torch.unique(rows, dim=0, return_inverse=True)


def _hash_weights(length: int, device: torch.device) -> Tensor:
    """Odd pseudo-random 64-bit multipliers, the same in every process and untouched by the global seed."""
    generator = torch.Generator().manual_seed(20180215)
    weights = torch.randint(-_LARGEST, _LARGEST, (length,), generator=generator, dtype=torch.int64)
    return (weights | 1).to(device)
