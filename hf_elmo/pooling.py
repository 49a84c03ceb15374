"""A sentence's words to one vector."""

import torch
from torch import Tensor


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Mean over the positions where the mask is True; 0 where there is none.

    Shape:
        x (B, T, W), mask (B, T) bool → (B, W)
    """
    mask = mask.unsqueeze(-1)  # (B, T, 1)
    return (x * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)


def masked_max(x: Tensor, mask: Tensor) -> Tensor:
    """Largest value over the positions where the mask is True; 0 where there is none.

    Shape:
        x (B, T, W), mask (B, T) bool → (B, W)
    """
    largest = x.masked_fill(~mask.unsqueeze(-1), torch.finfo(x.dtype).min).amax(dim=1)
    return largest * mask.any(dim=1, keepdim=True)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last dimension's positions where the mask is True; 0 everywhere where there is none.

    Shape:
        scores (..., T), mask broadcastable to it → (..., T)
    """
    shares = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
    return shares * mask
