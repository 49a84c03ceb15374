"""bilm-tf's training checkpoints, read by TensorFlow itself: the biLM, its softmax, and Adagrad's accumulators."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from hf_elmo.checkpoint_map import Array, checkpoint_map, head_map
from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.convert.hdf5 import differences, listed
from hf_elmo.convert.weights import Weights

_SLOT = re.compile(r"/(Adagrad|Adam|Adam_1|Momentum|RMSProp|RMSProp_1)$")
_CELL = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}
# Variables of a run that belong to no model.
_COUNTERS = {"global_step", "train_perplexity"}


class Variables(Protocol):
    """A checkpoint: names with their shapes, and the values on request."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Every variable's shape."""

    def read(self, name: str) -> Array:
        """The values of a variable."""


def variable_name(dataset: str, config: ElmoConfig) -> str:
    """The variable in bilm-tf's graph that its weight file calls `dataset`."""
    # A single layer is not wrapped in a MultiRNNCell.
    cell = r"rnn/multi_rnn_cell/cell_\1/lstm_cell" if config.num_hidden_layers > 1 else "rnn/lstm_cell"
    name = re.sub(r"RNN/MultiRNNCell/Cell(\d+)/LSTMCell", cell, dataset)
    for ours, theirs in _CELL.items():
        name = re.sub(f"cell/{ours}$", f"cell/{theirs}", name)
    return name if name.startswith("lm/") else f"lm/{name}"


def read_checkpoint(index: Path, config: ElmoConfig, *, with_head: bool) -> Weights:
    """All that a checkpoint holds of a model of this configuration; `config.vocab_size` must be set for a head.

    Raises:
        ImportError: TensorFlow is not installed.
        ValueError: the checkpoint is damaged, or belongs to other options or another vocabulary.
    """
    return weights_of(_Checkpoint(index), config, with_head=with_head, where=str(index))


def weights_of(variables: Variables, config: ElmoConfig, *, with_head: bool, where: str) -> Weights:
    """The weights that variables of bilm-tf's names hold.

    Raises:
        ValueError: variables are missing, too many, of another shape, or hold numbers that are none.
    """
    entries = [(entry, f"elmo.{entry.parameter}") for entry in checkpoint_map(config)]
    entries += [(entry, entry.parameter) for entry in head_map(config)] if with_head else []
    names = {parameter: variable_name(entry.dataset, config) for entry, parameter in entries}
    notes = _check_names(set(names.values()), set(variables.shapes), with_head=with_head, where=where)
    slots = {parameter: f"{name}/Adagrad" for parameter, name in names.items()}
    has_slots = [slot in variables.shapes for slot in slots.values()]
    if any(has_slots) and not all(has_slots):
        missing = listed(slot for slot in slots.values() if slot not in variables.shapes)
        raise ValueError(f"{where}: got Adagrad's accumulators without {missing}; expected one for each variable.")
    parameters: dict[str, Tensor] = {}
    accumulators: dict[str, Tensor] = {}
    for entry, parameter in entries:
        values = _values(variables, names[parameter], entry.shape, where)
        parameters[parameter] = _tensor(entry.layout.from_file(values))
        if with_head and all(has_slots):
            sums = _values(variables, slots[parameter], entry.shape, where)
            if not (sums > 0).all():
                raise ValueError(f"{where}: {slots[parameter]}: got a sum that is not positive; expected Adagrad's.")
            accumulators[parameter] = _tensor(entry.layout.from_file(sums))
    if accumulators:
        # The row of "no word", which the original does not have: never trained, but divided by its root.
        accumulators["elmo.character_cnn.embedding.weight"][0] = 1.0
    elif with_head:
        notes.append("the checkpoint has no accumulators of Adagrad; training goes on with fresh ones")
    return Weights(
        config=config,
        parameters={
            name.removeprefix("elmo."): value for name, value in parameters.items() if name.startswith("elmo.")
        },
        head={name.removeprefix("lm_head."): value for name, value in parameters.items() if name.startswith("lm_head.")}
        if with_head
        else None,
        accumulators=accumulators or None,
        notes=notes,
    )


def head_rows(index: Path) -> int | None:
    """How many words the softmax of a checkpoint has, or None without one.

    Raises:
        ImportError, ValueError: as [`read_checkpoint`].
    """
    shape = _Checkpoint(index).shapes.get("lm/softmax/b")
    return None if not shape else shape[0]


def _check_names(expected: set[str], found: set[str], *, with_head: bool, where: str) -> list[str]:
    rest = {name for name in found - expected - _COUNTERS if not _SLOT.search(name)}
    unknown = {name for name in rest if name.startswith("lm/") and (with_head or not name.startswith("lm/softmax/"))}
    if unknown or not expected <= found:
        problems = differences(expected, (found & expected) | unknown)
        raise ValueError(
            f"{where}: got other variables than its options.json calls for: {problems}. Do both belong to the same "
            "model?"
        )
    left = rest - unknown - {name for name in rest if name.startswith("lm/softmax/")}
    return [f"{len(left)} variables that belong to no biLM were left out: {listed(left)}"] if left else []


def _values(variables: Variables, name: str, shape: tuple[int, ...], where: str) -> Array:
    got = tuple(variables.shapes[name])
    if got != shape:
        raise ValueError(
            f"{where}: variable {name}: got shape {got}; expected {shape} by its options.json and vocabulary.  Do they "
            "belong to the same model?"
        )
    values = variables.read(name)
    if values.dtype != np.float32 or not np.isfinite(values).all():
        raise ValueError(f"{where}: variable {name}: got values that are no float32 numbers; expected a sound model's.")
    return values


def _tensor(values: Array) -> Tensor:
    return torch.from_numpy(np.array(values, order="C"))


class _Checkpoint:
    """Variables of a checkpoint on disk."""

    def __init__(self, index: Path) -> None:
        self.where = str(index)
        self.tensorflow = _import_tensorflow()
        with self._one_line():
            self.reader = self.tensorflow.train.load_checkpoint(self.where.removesuffix(".index"))
            self.shapes = {name: tuple(shape) for name, shape in self.reader.get_variable_to_shape_map().items()}

    def read(self, name: str) -> Array:
        with self._one_line():
            values: Array = self.reader.get_tensor(name)
        return values

    @contextmanager
    def _one_line(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # TensorFlow's own, and Python's of many kinds
            reason = " ".join(str(error).split())[:300]
            raise ValueError(
                f"{self.where}: cannot be read as a TensorFlow checkpoint, it is damaged or cut off: {reason}"
            ) from error


def _import_tensorflow() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # what it says while it is loaded is not about the checkpoint
    try:
        import tensorflow
    except ImportError as error:
        raise ImportError(
            'reading TensorFlow checkpoints needs tensorflow: pip install "spacy-elmo[tensorflow]"'
        ) from error
    return tensorflow
