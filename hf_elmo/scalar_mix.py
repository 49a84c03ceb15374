"""The task-specific mix of the biLM's layers (Peters et al. 2018, equation 1)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hf_elmo.configuration_elmo import ElmoConfig


class ScalarMix(nn.Module):
    r"""\(\mathrm{ELMo} = γ \sum_k s_k h_k\) with \(s = \mathrm{softmax}(w)\).

    Untrained weights are 0 and γ is 1: the plain average of the layers.

    Args:
        config: `mix_layers`, `mix_layer_norm`, `mix_layer_norm_eps`, `mix_l2` and `mix_trainable` are read.
    """

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.layers = (
            list(range(config.num_hidden_layers + 1)) if config.mix_layers is None else list(config.mix_layers)
        )
        self.layer_norm = config.mix_layer_norm
        self.eps = config.mix_layer_norm_eps
        self.l2 = config.mix_l2
        self.weights = nn.Parameter(torch.zeros(len(self.layers)), requires_grad=config.mix_trainable)
        self.gamma = nn.Parameter(torch.ones(1), requires_grad=config.mix_trainable)

    def forward(self, hidden_states: Sequence[Tensor], mask: Tensor) -> Tensor:
        """Mix all layers of one biLM pass.

        Shape:
            hidden_states: L + 1 tensors (B, T, W); mask (B, T) bool → (B, T, W), 0 at padding
        """
        shares = torch.softmax(self.weights, dim=0)  # (len(layers),)
        mixed = torch.zeros_like(hidden_states[0])  # (B, T, W)
        for share, layer in zip(shares.unbind(), self.layers, strict=True):
            mixed = mixed + share * self._normalised(hidden_states[layer], mask)
        return self.gamma * mixed * mask.unsqueeze(-1)

    def penalty(self) -> Tensor:
        """λ‖w‖², to be added to a task's loss (section 3.3)."""
        return self.l2 * self.weights.square().sum()

    def _normalised(self, layer: Tensor, mask: Tensor) -> Tensor:
        if self.layer_norm == "token":
            return torch.nn.functional.layer_norm(layer, layer.shape[-1:], eps=self.eps)
        if self.layer_norm == "batch":
            return batch_norm(layer, mask.unsqueeze(-1).to(layer.dtype), self.eps)
        return layer


def batch_norm(layer: Tensor, mask: Tensor, eps: float) -> Tensor:
    """The reference's normalisation: one mean and one variance over all words and features of the batch."""
    count = (mask.sum() * layer.shape[-1]).clamp(min=1)  # a batch without a word has no mean
    mean = (layer * mask).sum() / count
    variance = ((layer * mask - mean) * mask).square().sum() / count
    return (layer - mean) / torch.sqrt(variance + eps)
