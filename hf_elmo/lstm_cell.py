"""The LSTM's cell for inference, in place."""

import torch
from torch import Tensor

from hf_elmo.lstm_gradient import FORGET_BIAS


def advance_cell(gates: Tensor, cell: Tensor, memory: Tensor, *, cell_clip: float | None) -> None:
    """One step: c ← f c + i tanh(j), clipped before it is read and before it is carried; memory ← o tanh(c).

    Args:
        gates: i, j, f and o one after the other, before their functions, the forget bias added; used up.
        cell: c before the step; overwritten by that after it.
        memory: overwritten by what the projection reads.
        cell_clip: None for none.

    Shape:
        gates (..., 4D), cell and memory (..., D)
    """
    i, j, f, o = gates.chunk(4, dim=-1)  # (..., D) each
    i.sigmoid_(), j.tanh_(), gates[..., 2 * cell.shape[-1] :].sigmoid_()
    cell.mul_(f).addcmul_(i, j)
    if cell_clip is not None:
        cell.clamp_(-cell_clip, cell_clip)
    torch.tanh(cell, out=memory).mul_(o)


def with_forget_bias(bias: Tensor) -> Tensor:
    """A copy of the gates' bias to which the forget gate's constant is added.

    Shape:
        (4D,) → (4D,)
    """
    bias = bias.clone()
    bias.chunk(4)[2].add_(FORGET_BIAS)
    return bias
