r"""How much of what the machine could do a training run does.

The limit is the speed of a large matrix product, measured; the work is the floating-point operations (FLOPs; a
multiplication and an addition are two) of the matrix products and convolutions of a training step, counted from the
configuration.  A step is three forward passes: its backward pass forms two products for each of the forward's.

Per word and forward pass, both directions, with the sizes of `ElmoConfig` (P projection, D cells, L layers, K classes
that a prediction is compared with, C characters, d their embedding, n_f filters in all):

.. math::
    \mathrm{LSTMs} &= 2 L (2 · 2P · 4D + 2 · D · P) \\
    \mathrm{softmax} &= 2 · 2 · P · K, \quad K = \text{negatives, or the whole vocabulary, or its frequent words} \\
    \mathrm{token\ layer}(c) &= \sum_{(w, n)} 2 (\min(C, c + w_{max}) - w + 1) · w · d · n
        + \mathrm{highways} · 2 · 2 · n_f^2 + 2 · n_f · P

The token layer of a word of c characters (begin and end mark included) is computed once for each distinct word of a
batch, and its windows of nothing but padding, which are all alike, once.  A batch of n words, drawn by their
frequencies \(p_k\), holds word k with probability \(1 - (1 - p_k)^n\).

Not counted: elementwise operations, the recurrence's memory traffic, the optimiser.  100 % is therefore out of reach.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.pretraining.shards import PreparedCorpus

FORWARD_PASSES_PER_STEP = 3
_DIRECTIONS = 2
_GPU_SIZE, _CPU_SIZE = 8192, 1024


def lstm_flops(config: ElmoConfig) -> int:
    """Of one word, all layers and both directions, forward."""
    P, D = config.projection_size, config.lstm_size
    projection = 2 * D * P if D != P else 0
    return _DIRECTIONS * config.num_hidden_layers * (2 * 2 * P * 4 * D + projection)


def softmax_flops(config: ElmoConfig) -> int:
    """Of one word, both directions, forward.

    The product with the target of a sampled softmax is elementwise; of an adaptive one only what every word needs is
    counted, its frequent words and a class for each cluster of the others.
    """
    classes = config.vocab_size - 1
    if config.lm_softmax == "sampled":
        classes = min(classes, config.num_negative_samples)
    elif config.lm_softmax == "adaptive":
        assert config.adaptive_cutoffs is not None
        classes = config.adaptive_cutoffs[0] + len(config.adaptive_cutoffs)
    return _DIRECTIONS * 2 * config.projection_size * classes


def token_layer_flops(config: ElmoConfig, num_characters: int) -> int:
    """Of one distinct word, forward; its characters include both marks."""
    n_f = sum(count for _, count in config.character_filters)
    widest = max(width for width, _ in config.character_filters)
    length = min(config.max_characters_per_word, num_characters + widest)
    convolutions = sum(
        2 * (length - width + 1) * width * config.character_embedding_size * count
        for width, count in config.character_filters
    )
    highways = config.num_highway_layers * 2 * 2 * n_f * n_f
    projection = 2 * n_f * config.projection_size if n_f != config.projection_size else 0
    return convolutions + highways + projection


def training_flops_per_word(config: ElmoConfig, *, token_layer_per_word: float) -> float:
    """Of a training step, for a word that both directions read.

    Args:
        config: of the model.
        token_layer_per_word: FLOPs of a batch's distinct words, forward, divided by its words in each direction.
    """
    return FORWARD_PASSES_PER_STEP * (lstm_flops(config) + softmax_flops(config) + token_layer_per_word)


def token_layer_per_word(config: ElmoConfig, prepared: PreparedCorpus, *, words_per_batch: int) -> float:
    """FLOPs of a batch's distinct words, forward, divided by its words in each direction.

    Args:
        config: of the model.
        prepared: the training text; its words' frequencies and lengths are read.
        words_per_batch: in each direction; the two are taken to read sentences of their own.
    """
    counts = prepared.counts.astype(np.float64)
    counts[:2] += prepared.split_report("train")["sentences"] / _DIRECTIONS  # each direction reads one of the two
    drawn = _DIRECTIONS * words_per_batch
    expected = -np.expm1(drawn * np.log1p(-counts / counts.sum()))  # (words,)
    longest = config.max_characters_per_word
    lengths = np.fromiter((min(longest, len(word.encode()) + 2) for word in prepared.words), np.int64, len(counts))
    lengths[:2] = 3  # a boundary is one character between its marks
    flops_by_length = np.array([token_layer_flops(config, length) for length in range(longest + 1)], np.float64)
    return float((expected * flops_by_length[lengths]).sum()) / words_per_batch


def measure_limit(
    device: torch.device | str,
    dtype: torch.dtype = torch.float32,
    *,
    seconds: float = 0.3,
    size: int | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """FLOPs per second of the best of several products of two square matrices, with torch's settings as they are.

    Args:
        device: to measure.
        dtype: of the matrices: what training multiplies in.
        seconds: to go on for, after one product that is not timed.
        size: rows of a matrix; by default large enough for the kind of device.
        clock: what measures, in seconds.
    """
    device = torch.device(device)
    if size is None:
        size = _CPU_SIZE if device.type == "cpu" else _GPU_SIZE
    # Not torch's random numbers: a measurement must not change what is trained.
    values = torch.linspace(-1.0, 1.0, size * size, device=device).view(size, size)
    left, right = values.to(dtype), values.flip(0).to(dtype)
    out = left @ right
    _wait_for(device)
    fastest, until = float("inf"), clock() + seconds
    while True:
        begin = clock()
        torch.mm(left, right, out=out)
        _wait_for(device)
        end = clock()
        fastest = min(fastest, end - begin)
        if end >= until:
            return 2 * size**3 / fastest


def _wait_for(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


@dataclass(frozen=True)
class MachineLimit:
    """What training could reach at most, and how to tell how near it is.

    Attributes:
        flops_per_second: of all processes together.
        flops_per_word: of a training step.
    """

    flops_per_second: float
    flops_per_word: float

    @property
    def words_per_second(self) -> float:
        """The limit as a speed of training."""
        return self.flops_per_second / self.flops_per_word

    def share(self, words_per_second: float) -> float:
        """How much of the limit a speed is, 0 to 1."""
        return words_per_second / self.words_per_second

    def __str__(self) -> str:
        return (
            f"limit of this machine: {self.flops_per_second / 1e9:,.0f} GFLOP/s in matrix products, "
            f"{self.flops_per_word / 1e6:,.1f} MFLOP a word in training, so {self.words_per_second:,.0f} words/s"
        )


def machine_limit(
    config: ElmoConfig,
    prepared: PreparedCorpus,
    *,
    words_per_batch: int,
    device: torch.device | str,
    dtype: torch.dtype = torch.float32,
    processes: int = 1,
) -> MachineLimit:
    """The limit of a run, measured in this process and taken for that of each of the others.

    Args:
        config: of the model.
        prepared: the training text.
        words_per_batch: of a process, in each direction.
        device: that trains.
        dtype: that it multiplies in.
        processes: that train together.
    """
    token_layer = token_layer_per_word(config, prepared, words_per_batch=words_per_batch)
    return MachineLimit(
        flops_per_second=processes * measure_limit(device, dtype),
        flops_per_word=training_flops_per_word(config, token_layer_per_word=token_layer),
    )
