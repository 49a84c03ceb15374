"""Linear maps for inference, in a chosen precision, on weights laid out beforehand where the CPU has kernels for them.

On a CPU the kernels are oneDNN's, which PyTorch reaches by operators without a stability promise (`mkldnn::*` and
`onednn::*`, those that `torch.compile` emits).  All of them are called in this file, and each is tried on a small
product before it is relied on; where they are missing, `torch.nn.functional.linear` takes their place.
"""

import functools
from collections.abc import Callable
from typing import Literal, cast, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

Precision = Literal["fp32", "bf16", "int8"]
Linear = Callable[[Tensor], Tensor]

# The layout oneDNN chooses depends on how many rows it is told to expect; it then serves any number.
_ROWS_EXPECTED = 64
# oneDNN has fast int8 kernels for unsigned inputs only: 0 is stored as 128.
_ZERO_POINT = 128
_INT8_MAX = 127
_SMALLEST_SCALE = 1e-12
# Different numbers of rows between a power of two and the next.
_LENGTHS_PER_OCTAVE = 16


def check_precision(precision: str, device: torch.device | None = None) -> Precision:
    """Refuse a precision that does not exist, or that the device cannot compute in.

    Raises:
        ValueError: with what to use instead.
    """
    if precision not in get_args(Precision):
        raise ValueError(f"precision: got {precision!r}; expected one of {', '.join(map(repr, get_args(Precision)))}.")
    checked = cast(Precision, precision)
    if device is None or precision == "fp32":
        return checked
    if precision == "bf16" and not _has_bf16(device):
        raise ValueError(f"precision: got 'bf16', which this {_name(device)} has no fast instructions for; use 'fp32'.")
    if precision == "int8" and not (device.type == "cpu" and int8_works()):
        instead = "'bf16' or 'fp32'" if _has_bf16(device) else "'fp32'"
        raise ValueError(
            f"precision: got 'int8', which needs 8-bit dot products (VNNI) and PyTorch's oneDNN kernels, and "
            f"this {_name(device)} has none; use {instead}."
        )
    return checked


def can_prepack(weight: Tensor, precision: Precision) -> bool:
    """Whether there are kernels for weights laid out beforehand; otherwise a plain product does."""
    if weight.device.type != "cpu":
        return False
    if precision == "int8":
        return int8_works()
    dtype = torch.bfloat16 if precision == "bf16" else weight.dtype
    return dtype in (torch.float32, torch.bfloat16) and onednn_works(dtype)


def linear(weight: Tensor, bias: Tensor | None, precision: Precision) -> Linear:
    """The map x → x Wᵀ + b by the fastest kernel there is; inputs and outputs in the weights' dtype.

    `"fp32"` computes in the weights' dtype, float32 or float64.  `"bf16"` rounds weights, inputs and outputs.  `"int8"`
    rounds weights by a scale per output and inputs by a scale per row, so that rows stay independent of each other.

    Shape:
        weight (out, in), bias (out,) or None; (n, in) → (n, out)
    """
    weight, bias = weight.detach(), None if bias is None else bias.detach()
    if precision == "int8":
        return _Int8(weight, bias)
    if not can_prepack(weight, precision):
        return _Plain(weight, bias, torch.bfloat16 if precision == "bf16" else weight.dtype)
    return _OneDNNBfloat16(weight, bias) if precision == "bf16" else _OneDNN(weight, bias)


def with_rounded_length(x: Tensor) -> Tensor:
    """Rows of zeros added, up to 6 %.

    oneDNN compiles a kernel for each shape it meets and keeps up to 1,024 of them, so that memory would grow for as
    long as batches of new lengths come.

    Shape:
        (n, …) → (m, …), n ≤ m
    """
    granule = max(1, 2 ** len(x).bit_length() // (2 * _LENGTHS_PER_OCTAVE))
    missing = -len(x) % granule
    return x if missing == 0 else torch.cat([x, x.new_zeros(missing, *x.shape[1:])])


class _Plain:
    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        self.weight = weight.to(dtype)
        self.bias = None if bias is None else bias.to(dtype)

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x.to(self.weight.dtype), self.weight, self.bias).to(x.dtype)


class _OneDNN:
    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _ROWS_EXPECTED)
        self.bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        y = torch.ops.mkldnn._linear_pointwise(with_rounded_length(x), self.weight, self.bias, "none", [], "")
        return y[: len(x)]


class _OneDNNBfloat16(_OneDNN):
    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__(weight.bfloat16(), None if bias is None else bias.bfloat16())

    def __call__(self, x: Tensor) -> Tensor:
        return super().__call__(x.bfloat16()).to(x.dtype)


class _Int8:
    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.scales = (weight.abs().amax(dim=1) / _INT8_MAX).clamp_(min=_SMALLEST_SCALE)  # (out,)
        quantised = (weight / self.scales.unsqueeze(1)).round_().to(torch.int8)  # (out, in)
        self.weight = torch.ops.onednn.qlinear_prepack(quantised, None)
        self.zero_points = torch.zeros(len(weight), dtype=torch.int32)
        self.bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        scales = x.abs().amax(dim=1, keepdim=True).div_(_INT8_MAX).clamp_(min=_SMALLEST_SCALE)  # (n, 1)
        quantised = (x / scales).round_().add_(_ZERO_POINT).to(torch.uint8)  # (n, in), 1 to 255
        y = torch.ops.onednn.qlinear_pointwise(
            *(with_rounded_length(quantised), 1.0, _ZERO_POINT),
            *(self.weight, self.scales, self.zero_points),
            *(None, 1.0, 0, torch.float32, "none", [], ""),
        )[: len(x)]  # (n, out), still without the rows' scales
        return y.mul_(scales) if self.bias is None else torch.addcmul(self.bias, y, scales, out=y)


@functools.cache
def onednn_works(dtype: torch.dtype) -> bool:
    """Whether oneDNN's operators are there, and right."""
    if not torch.backends.mkldnn.is_available():
        return False
    if dtype == torch.bfloat16:
        return _is_right(_OneDNNBfloat16, tolerance=2**-8)
    return _is_right(_OneDNN, tolerance=1e-6)


@functools.cache
def int8_works() -> bool:
    """Whether the int8 operators are there, and exact: without VNNI their sums of two products saturate."""
    return _is_right(_Int8, tolerance=1e-6)


@torch.inference_mode()
def _is_right(kind: Callable[[Tensor, Tensor | None], Linear], tolerance: float) -> bool:
    """Try a product of the largest numbers that int8 holds, with neighbours of one sign."""
    signs = torch.tensor([1.0, 1.0, -1.0, -1.0]).repeat(8)  # (32,)
    weight = signs.outer(signs) * _INT8_MAX  # (32, 32)
    x = torch.stack([signs, -signs, torch.ones(32), signs]) * _INT8_MAX  # (4, 32)
    try:
        found = kind(weight, signs)(x)
    except (AttributeError, NotImplementedError, RuntimeError, TypeError):
        return False
    return torch.allclose(found, F.linear(x, weight, signs), rtol=tolerance, atol=1e-3)


def _has_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and onednn_works(torch.bfloat16) and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def _name(device: torch.device) -> str:
    return {"cpu": "CPU", "cuda": "GPU"}.get(device.type, f"device ({device.type})")
