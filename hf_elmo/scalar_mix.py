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

    @property
    def is_untrained(self) -> bool:
        """Whether it is still the plain average of its layers."""
        return bool((self.weights == 0).all() and (self.gamma == 1).all())

    @torch.no_grad()
    def start_anew(self) -> None:
        """Forget what was trained."""
        self.weights.zero_()
        self.gamma.fill_(1)

    @torch.no_grad()
    def read_only(self, layers: Sequence[int] | None, *, num_layers: int) -> None:
        """Mix these layers from now on, each with the weight that it has here; untrained, any layers equally.

        Args:
            layers: as in `ElmoConfig.mix_layers`.
            num_layers: how many there are, the token layer included.

        Raises:
            ValueError: a trained mix has no weight of a layer.
        """
        layers = list(range(num_layers) if layers is None else layers)
        if self.is_untrained:
            weights = self.weights.new_zeros(len(layers))
        else:
            missing = sorted(set(layers) - set(self.layers))
            if missing:
                raise ValueError(
                    f"mix_layers: got {layers!r}; the model's mix was trained on layers {self.layers!r}, and has no "
                    f"weight of {missing!r}; expected some of its own layers."
                )
            weights = self.weights[[self.layers.index(layer) for layer in layers]]
        self.layers = layers
        self.weights = nn.Parameter(weights, requires_grad=self.weights.requires_grad)

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
