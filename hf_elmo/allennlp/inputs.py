"""What `Elmo` is given is checked before the biLM reads it."""

from typing import Any

import torch
from torch import Tensor

from hf_elmo.character_ids import PAD_CHARACTER

_EXPECTED = "expected integer character ids (batch, words, {length}), as batch_to_ids returns them"


def check_integer_tensor(name: str, value: Any, *, least_dimensions: int, length: int | str) -> None:
    """Raise unless `value` is a tensor of integers with enough dimensions.

    Raises:
        TypeError: no tensor, or not of integers.
        ValueError: too few dimensions.
    """
    expected = _EXPECTED.format(length=length) if name == "inputs" else "expected integer word ids (batch, words)"
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: got {type(value).__name__}; {expected}.")
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        raise TypeError(f"{name}: got a tensor of {value.dtype}; {expected}.")
    if value.dim() < least_dimensions:
        raise ValueError(f"{name}: got shape {tuple(value.shape)}; {expected}.")


def check_character_ids(inputs: Any, length: int) -> None:
    """Raise unless `inputs` can be the character ids of a batch of sentences.

    Raises:
        TypeError: no tensor of integers.
        ValueError: another shape, or an id out of range.
    """
    check_integer_tensor("inputs", inputs, least_dimensions=3, length=length)
    if inputs.dim() != 3 or inputs.shape[-1] != length:
        raise ValueError(f"inputs: got shape {tuple(inputs.shape)}; {_EXPECTED.format(length=length)}.")
    if inputs.numel() and (inputs.min() < 0 or inputs.max() > PAD_CHARACTER):
        raise ValueError(
            f"inputs: got ids from {int(inputs.min())} to {int(inputs.max())}; expected character ids from 0 (no word) "
            f"to {PAD_CHARACTER}, as batch_to_ids returns them."
        )


def check_word_ids(word_inputs: Any, inputs: Tensor) -> None:
    """Raise unless `word_inputs` can be the word ids of the words spelled in `inputs`.

    Raises:
        TypeError: no tensor of integers.
        ValueError: another shape than that of the words in `inputs`.
    """
    check_integer_tensor("word_inputs", word_inputs, least_dimensions=2, length="")
    if word_inputs.shape != inputs.shape[:-1]:
        raise ValueError(
            f"word_inputs: got shape {tuple(word_inputs.shape)}; expected {tuple(inputs.shape[:-1])}, one id for each "
            "word of inputs."
        )
