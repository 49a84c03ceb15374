"""What the machine can do at most, measured, and what ELMo asks of it."""

from collections.abc import Callable

import numpy as np
import torch

from hf_elmo import ElmoConfig

Clock = Callable[[], float]
_SIDE = 2048
_READ_BYTES = 2**28  # more than any cache holds
_READS = 3


def sgemm(clock: Clock) -> float:
    """Floating-point operations per second of a product of two square matrices."""
    a, b = torch.rand(_SIDE, _SIDE), torch.rand(_SIDE, _SIDE)
    begin = clock()
    torch.mm(a, b)
    return 2 * _SIDE**3 / (clock() - begin)


def read_bandwidth(clock: Clock) -> float:
    """Bytes per second at which memory is read: the best of a few searches for the largest number."""
    numbers = torch.zeros(_READ_BYTES // 4)
    seconds = []
    for _ in range(_READS):
        begin = clock()
        numbers.max()
        seconds.append(clock() - begin)
    return _READ_BYTES / min(seconds)


def products_per_word(config: ElmoConfig, sentences: list[list[str]]) -> float:
    """Floating-point operations of the matrix products that a text needs, per word: the LSTMs on every position, the
    character CNN once per distinct word, on the windows that are not all padding and one that is.
    """
    P, D, L = config.projection_size, config.lstm_size, config.num_hidden_layers
    d, C = config.character_embedding_size, config.max_characters_per_word
    n_f = sum(count for _, count in config.character_filters)
    lstms = 2 * L * (2 * 2 * P * 4 * D + 2 * D * P * (D != P))
    after_convolution = config.num_highway_layers * 2 * 2 * n_f * n_f + 2 * n_f * P * (n_f != P)
    distinct = {word for sentence in sentences for word in sentence}
    # A word stands between two marks, and so does the one character of either sentence boundary.
    characters = np.array([min(C, len(word.encode()) + 2) for word in distinct] + [3, 3])
    convolutions = sum(
        2 * width * d * count * int(np.minimum(characters + 1, C - width + 1).sum())
        for width, count in config.character_filters
    )
    words = sum(map(len, sentences))
    positions = words + 2 * len(sentences)
    return (positions * lstms + len(characters) * after_convolution + convolutions) / words


def bytes_per_word(config: ElmoConfig, sentences: list[list[str]]) -> float:
    """Bytes of float32 weights that must be read, per word, when each sentence is embedded by itself.

    At every position, each layer and direction needs its weights of the hidden state and its projection; those of
    the inputs are needed once a sentence, since all inputs of a layer are there at once.  The character CNN is left
    out.
    """
    P, D, L = config.projection_size, config.lstm_size, config.num_hidden_layers
    recurrent, inputs = P * 4 * D + D * P * (D != P), P * 4 * D
    words = sum(map(len, sentences))
    positions = words + 2 * len(sentences)
    return 4 * 2 * L * (positions * recurrent + len(sentences) * inputs) / words
