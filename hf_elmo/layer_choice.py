"""Which vectors of a biLM's pass are wanted: its scalar mix, their average, or some layers by themselves."""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.scalar_mix import ScalarMix

NamedLayers = Literal["mix", "all", "top", "token", "average"]
Layers = NamedLayers | Sequence[int]


class WeightedSum:
    """A sum of layers, formed as they are computed: none of them is kept.

    Args:
        weights: of layers 0, 1, …, as far as they count.

    Attributes:
        depth: the highest layer that is read.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        self._weights = list(weights)
        self.depth = len(self._weights) - 1
        self._sum = torch.empty(0)

    def start(self, num_positions: int, like: Tensor) -> None:
        """Make room for a batch; `like` is a tensor (…, P)."""
        self._sum = like.new_empty(num_positions, 2 * like.shape[-1])  # (N, 2P)

    def receive(self, direction: int, positions: Tensor, layers: Sequence[Tensor]) -> None:
        """Add one direction's half of the layers at some positions."""
        weighed = [(weight, layer) for weight, layer in zip(self._weights, layers, strict=True) if weight]
        total = torch.zeros_like(layers[0]) if not weighed else weighed[0][0] * weighed[0][1]  # (n, P)
        for weight, layer in weighed[1:]:
            total.add_(layer, alpha=weight)
        self._sum.chunk(2, dim=1)[direction].index_copy_(0, positions, total)

    def result(self) -> Tensor:
        """(N, 2P)"""
        return self._sum


class ChosenLayers:
    """Some layers by themselves.

    Args:
        layers: which, in the order wanted.
    """

    def __init__(self, layers: Sequence[int]) -> None:
        self._layers = list(layers)
        self.depth = max(self._layers)
        self._kept = torch.empty(0)

    def start(self, num_positions: int, like: Tensor) -> None:
        """As in `WeightedSum`."""
        self._kept = like.new_empty(len(self._layers), num_positions, 2 * like.shape[-1])  # (k, N, 2P)

    def receive(self, direction: int, positions: Tensor, layers: Sequence[Tensor]) -> None:
        """As in `WeightedSum`."""
        for kept, layer in zip(self._kept.chunk(2, dim=2)[direction], self._layers, strict=True):
            kept.index_copy_(0, positions, layers[layer])

    def result(self) -> Tensor:
        """(k, N, 2P)"""
        return self._kept


class NormalisedMix(ChosenLayers):
    """A scalar mix that normalises layers, which needs both halves of them."""

    def __init__(self, mix: ScalarMix, num_layers: int) -> None:
        super().__init__(range(num_layers))
        self._mix = mix

    def result(self) -> Tensor:
        """(N, 2P)"""
        layers = super().result().unsqueeze(1)  # (L + 1, 1, N, 2P)
        mask = torch.ones(layers.shape[1:3], dtype=torch.bool, device=layers.device)
        return self._mix(layers.unbind(), mask).squeeze(0)


Choice = WeightedSum | ChosenLayers


def check_layers(layers: Layers, config: ElmoConfig) -> None:
    """Refuse layers that do not exist.

    Raises:
        ValueError, TypeError: with those that do.
    """
    top = config.num_hidden_layers
    names = ", ".join(map(repr, get_args(NamedLayers)))
    expected = f"expected one of {names}, or a list of layers from 0 (token layer) to {top} (top)."
    if isinstance(layers, str):
        if layers not in get_args(NamedLayers):
            raise ValueError(f"layers: got {layers!r}; {expected}")
        return
    if not isinstance(layers, Sequence):
        raise TypeError(f"layers: got {layers!r}; {expected}")
    if not layers or any(type(layer) is not int or not 0 <= layer <= top for layer in layers):
        raise ValueError(f"layers: got {list(layers)!r}; {expected}")


def choose(layers: Layers, config: ElmoConfig, mix: ScalarMix | None) -> Choice:
    """What collects the vectors of one batch; `layers` are checked before."""
    num_layers = config.num_hidden_layers + 1
    if layers == "token":
        return WeightedSum([1.0])
    if layers == "top" or (layers == "mix" and mix is None):
        return WeightedSum([0.0] * (num_layers - 1) + [1.0])
    if layers == "average":
        return WeightedSum([1 / num_layers] * num_layers)
    if layers == "mix":
        assert mix is not None
        return _mix(mix, num_layers)
    return ChosenLayers(range(num_layers) if isinstance(layers, str) else layers)


def _mix(mix: ScalarMix, num_layers: int) -> Choice:
    if mix.layer_norm != "none":
        return NormalisedMix(mix, num_layers)
    shares = mix.gamma.double() * torch.softmax(mix.weights.double(), dim=0)  # (layers of the mix,)
    weights = [0.0] * (max(mix.layers) + 1)
    for layer, share in zip(mix.layers, shares.tolist(), strict=True):
        weights[layer] = share
    return WeightedSum(weights)
