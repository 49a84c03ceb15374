"""`CharacterCNN` for inference: distinct words in, the large matrices laid out beforehand."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hf_elmo.character_cnn import CharacterCNN, Highway, groups_by_length
from hf_elmo.prepacked_linear import Linear, linear, with_rounded_length

# A block's activations stay in the cache.
_WORDS_PER_BLOCK = 512


class PackedCharacterCNN:
    """Character ids of distinct words → the biLM's token layer.

    Always in full precision: its vectors are remembered, so that a faster product would gain little.

    Args:
        cnn: what is to be computed; its weights are not followed when they change.
        dtype: of the vectors, float32 or float64.
    """

    def __init__(self, cnn: CharacterCNN, *, dtype: torch.dtype) -> None:
        self._embedding = cnn.embedding.weight.detach().to(dtype)  # (characters, d)
        self._convolutions = [_convolution(convolution, dtype) for convolution in cnn.convolutions]
        self._activation, self._widest = cnn.activation, cnn.widest
        self._highways = [_highway(highway, dtype) for highway in cnn.highways]
        self._projection = None if cnn.projection is None else _linear(cnn.projection, dtype)
        self.width = sum(len(bias) for _, bias in self._convolutions)

    def __call__(self, rows: Tensor) -> Tensor:
        """Shape: (U, C) → (U, P)"""
        pooled = self._embedding.new_empty(len(rows), self.width)  # (U, n_f)
        for group, trimmed in groups_by_length(rows, self._widest) if len(rows) else ():
            pooled[group] = self._pooled(with_rounded_length(trimmed))[: len(trimmed)]
        return torch.cat([self._vectors(block) for block in pooled.split(_WORDS_PER_BLOCK)])

    def _pooled(self, rows: Tensor) -> Tensor:
        x = F.embedding(rows, self._embedding).transpose(1, 2)  # (G, d, characters)
        return torch.cat(
            [self._activation(F.conv1d(x, weight, bias).amax(dim=2)) for weight, bias in self._convolutions], dim=1
        )  # (G, n_f)

    def _vectors(self, x: Tensor) -> Tensor:
        for gates in self._highways:
            gate, transformed = gates(x).chunk(2, dim=1)  # (N, n_f) each
            # g t + (1 - g) x, as x + g (t - x)
            x = torch.addcmul(x, gate.sigmoid_(), transformed.relu_().sub_(x))
        return x if self._projection is None else self._projection(x)  # (N, P)


def _convolution(convolution: nn.Module, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    assert isinstance(convolution, nn.Conv1d)
    assert convolution.bias is not None
    return convolution.weight.detach().to(dtype), convolution.bias.detach().to(dtype)


def _highway(highway: nn.Module, dtype: torch.dtype) -> Linear:
    """Gate and transformed part as one product."""
    assert isinstance(highway, Highway)
    weights = torch.cat([highway.carry.weight, highway.transform.weight]).detach().to(dtype)  # (2 n_f, n_f)
    biases = torch.cat([highway.carry.bias, highway.transform.bias]).detach().to(dtype)
    return linear(weights, biases, "fp32")


def _linear(module: nn.Linear, dtype: torch.dtype) -> Linear:
    return linear(module.weight.detach().to(dtype), module.bias.detach().to(dtype), "fp32")
