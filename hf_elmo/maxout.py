"""Maxout layers (Goodfellow et al. 2013) with batch normalisation, as McCann et al. (2017) classify with."""

import torch.nn.functional as F
from torch import Tensor, nn


class Maxout(nn.Module):
    """Normalise over the batch, drop, and keep the largest of several linear maps.

    Args:
        input_size, output_size: widths.
        pieces: linear maps that compete for each output.
        dropout: probability, on the normalised input.
    """

    def __init__(self, input_size: int, output_size: int, *, pieces: int = 4, dropout: float = 0.0) -> None:
        super().__init__()
        self.pieces = pieces
        self.dropout = dropout
        self.norm = nn.BatchNorm1d(input_size)
        self.linear = nn.Linear(input_size, output_size * pieces)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: x (B, input_size) → (B, output_size)."""
        x = F.dropout(self._normalised(x), self.dropout, self.training)
        return self.linear(x).unflatten(-1, (-1, self.pieces)).amax(dim=-1)

    def _normalised(self, x: Tensor) -> Tensor:
        if self.training and len(x) == 1:  # one row has no variance: the last batch of an epoch may be that small
            norm = self.norm
            return F.batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps)
        return self.norm(x)
