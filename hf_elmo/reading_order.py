"""In which order each direction reads the words of a padded batch."""

from typing import NamedTuple

import torch
from torch import Tensor


class ReadingOrder(NamedTuple):
    """Positions to read, step by step, and where each position's output stands among the steps.

    Padding may be on any side, or in between: a direction reads a row's words and nothing else, so that a sentence's
    vectors do not depend on how it was padded.

    Attributes:
        steps: (B, T) position read at each step; the steps past a row's end are arbitrary.
        positions: (B, T) step at which each position was read; arbitrary at padding.
    """

    steps: Tensor
    positions: Tensor

    def read(self, x: Tensor) -> Tensor:
        """(B, T, P) by position → (B, T, P) by step."""
        return _take(x, self.steps)

    def put_back(self, x: Tensor) -> Tensor:
        """(B, T, P) by step → (B, T, P) by position."""
        return _take(x, self.positions)


class ReadingOrders(NamedTuple):
    """Both directions of one batch.

    Attributes:
        forward, backward: order of each direction.
        mask: (B, T) True at words, by position.
        step_mask: (B, T) True for the steps a row has.
    """

    forward: ReadingOrder
    backward: ReadingOrder
    mask: Tensor
    step_mask: Tensor


def reading_orders(mask: Tensor) -> ReadingOrders:
    """Orders for a batch whose words are where `mask` is True.

    Shape:
        mask: (B, T) bool
    """
    lengths = mask.sum(dim=1, keepdim=True)  # (B, 1)
    time = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)  # (B, T)
    step_mask = time < lengths
    last = (lengths - 1).clamp(min=0)
    forward_steps = mask.int().argsort(dim=1, descending=True, stable=True)  # words first, in order
    rank = (mask.cumsum(dim=1) - 1).clamp(min=0)  # which word of its row a position is
    mirrored = torch.where(step_mask, last - time, time)
    backward_steps = forward_steps.gather(1, mirrored)
    return ReadingOrders(
        forward=ReadingOrder(forward_steps, rank),
        backward=ReadingOrder(backward_steps, (last - rank).clamp(min=0)),
        mask=mask,
        step_mask=step_mask,
    )


def _take(x: Tensor, index: Tensor) -> Tensor:
    return x.gather(1, index.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
