"""Which dataset of the original's HDF5 file is which parameter of ours: one table, read in both directions."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from hf_elmo.configuration_elmo import ElmoConfig

Array = np.ndarray


class Layout(NamedTuple):
    """How an array lies in the file and in the model; the two functions undo each other exactly."""

    from_file: Callable[[Array], Array]
    to_file: Callable[[Array], Array]


class Entry(NamedTuple):
    """One parameter.

    Attributes:
        dataset: its path in the HDF5 file.
        shape: its shape there.
        parameter: its name in `ElmoModel`; of the softmax, in `ElmoForPreTraining`.
        layout: the way between the two.
    """

    dataset: str
    shape: tuple[int, ...]
    parameter: str
    layout: Layout


SAME = Layout(lambda x: x, lambda x: x)
# x @ W in the file, W @ x in torch's Linear.
TRANSPOSED = Layout(lambda x: x.T, lambda x: x.T)
# (1, width, d, count) in the file, (count, d, width) in torch's Conv1d.
CONVOLUTION = Layout(lambda x: x[0].transpose(2, 1, 0), lambda x: x.transpose(2, 1, 0)[None])
# The file counts characters from 0; in the model 0 is "no word", a row of zeros.
CHARACTERS = Layout(lambda x: np.concatenate([np.zeros_like(x[:1]), x]), lambda x: x[1:])


def checkpoint_map(config: ElmoConfig) -> list[Entry]:
    """Every dataset that a weight file of this configuration holds, and nothing else."""
    return [Entry(*row) for part in (_character_cnn(config), _lstms(config)) for row in part]


def head_map(config: ElmoConfig) -> list[Entry]:
    """The softmax, one for both directions, under the names of bilm-tf's checkpoints; no weight file holds it."""
    words = config.vocab_size - 1  # no row for `<pad>`
    return [
        Entry("lm/softmax/W", (words, config.projection_size), "lm_head.weight", SAME),
        Entry("lm/softmax/b", (words,), "lm_head.bias", SAME),
    ]


def _character_cnn(config: ElmoConfig) -> Iterator[tuple[str, tuple[int, ...], str, Layout]]:
    d, p = config.character_embedding_size, config.projection_size
    n_f = sum(count for _, count in config.character_filters)
    yield "char_embed", (config.character_vocab_size - 1, d), "character_cnn.embedding.weight", CHARACTERS
    for i, (width, count) in enumerate(config.character_filters):
        yield f"CNN/W_cnn_{i}", (1, width, d, count), f"character_cnn.convolutions.{i}.weight", CONVOLUTION
        yield f"CNN/b_cnn_{i}", (count,), f"character_cnn.convolutions.{i}.bias", SAME
    for k in range(config.num_highway_layers):
        for gate in ("carry", "transform"):
            yield (
                f"CNN_high_{k}/W_{gate}",
                (n_f, n_f),
                f"character_cnn.highways.{k}.{gate}.weight",
                TRANSPOSED,
            )
            yield f"CNN_high_{k}/b_{gate}", (n_f,), f"character_cnn.highways.{k}.{gate}.bias", SAME
    if n_f != p:
        yield "CNN_proj/W_proj", (n_f, p), "character_cnn.projection.weight", TRANSPOSED
        yield "CNN_proj/b_proj", (p,), "character_cnn.projection.bias", SAME


def _lstms(config: ElmoConfig) -> Iterator[tuple[str, tuple[int, ...], str, Layout]]:
    p, d = config.projection_size, config.lstm_size
    for r, direction in enumerate(("forward", "backward")):
        for layer in range(config.num_hidden_layers):
            cell = f"RNN_{r}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            lstm = f"layers.{layer}.{direction}_lstm"
            yield f"{cell}/W_0", (2 * p, 4 * d), f"{lstm}.gates.weight", TRANSPOSED
            yield f"{cell}/B", (4 * d,), f"{lstm}.gates.bias", SAME
            if d != p:
                yield f"{cell}/W_P_0", (d, p), f"{lstm}.projection.weight", TRANSPOSED
