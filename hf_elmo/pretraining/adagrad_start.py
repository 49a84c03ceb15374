"""Adagrad that goes on where another program's left off: its accumulators in a safetensors file beside the weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from hf_elmo.ordinary_file import save_file

ACCUMULATORS = "adagrad.safetensors"


class StartedAdagrad(torch.optim.Adagrad):
    r"""Adagrad whose sums \(\sum g^2\) start at given values instead of one constant.

    Args:
        params: as in Adagrad.
        sums: the values, by parameter.
        kwargs: as in Adagrad.
    """

    def __init__(self, params: Any, *, sums: Mapping[nn.Parameter, Tensor], **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["sum"].copy_(sums[parameter])


def save_accumulators(accumulators: Mapping[str, Tensor], folder: Path) -> None:
    """Write `adagrad.safetensors`: the sums under the names of `ElmoForPreTraining`'s parameters."""
    save_file({name: values.contiguous() for name, values in accumulators.items()}, folder / ACCUMULATORS)


def load_accumulators(folder: str | Path, model: nn.Module) -> dict[nn.Parameter, Tensor] | None:
    """The sums that lie beside a model's weights, by its parameters; None where there are none.

    Raises:
        ValueError: the file is damaged, belongs to another model, or holds a sum that is not positive.
    """
    path = Path(folder) / ACCUMULATORS
    if not path.is_file():
        return None
    try:
        stored = load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path}: cannot be read, the file is damaged or cut off: {error}") from error
    sums: dict[nn.Parameter, Tensor] = {}
    for name, parameter in model.named_parameters():
        got = stored.get(name)
        if got is None or got.shape != parameter.shape:
            raise ValueError(
                f"{path}: {name}: got {'nothing' if got is None else tuple(got.shape)}; expected "
                f"{tuple(parameter.shape)}, as in the model beside it."
            )
        if not (got > 0).all() or not torch.isfinite(got).all():
            raise ValueError(f"{path}: {name}: got a sum of squares that is not positive; expected Adagrad's.")
        sums[parameter] = got
    return sums
