"""The LSTM cell as one kernel of Triton's; imported only where the kernel is to run, since few need Triton."""

import torch
import triton
import triton.language as tl
from torch import Tensor

# Four numbers a thread, so that float32 is read and written 16 bytes at a time.
_COLUMNS_PER_PROGRAM = 512
_WARPS_PER_PROGRAM = 4


def advance_cell_in_one_kernel(gates: Tensor, cell: Tensor, memory: Tensor, *, cell_clip: float | None) -> None:
    """`hf_elmo.lstm_cell.advance_cell`, but that gates are left as they are; computed in float32.

    Args:
        gates: i, j, f, o before their activations, float32 or bfloat16.
        cell: float32, overwritten.
        memory: overwritten, rounded to its dtype.
        cell_clip: None for none.

    Shape:
        gates (..., 4D), cell and memory (..., D), none empty; of matrices the rows may lie apart
    """
    if cell.dim() > 2:
        gates, cell, memory = (tensor.view(-1, tensor.shape[-1]) for tensor in (gates, cell, memory))
    rows, width = cell.shape
    assert all(tensor.stride(1) == 1 or tensor.shape[1] == 1 for tensor in (gates, cell, memory))
    with torch.cuda.device_of(cell):  # Triton launches on the current device
        _kernel[rows, triton.cdiv(width, _COLUMNS_PER_PROGRAM)](
            *(gates, cell, memory),
            *(gates.stride(0), cell.stride(0), memory.stride(0)),
            width,
            CLIP=cell_clip,
            COLUMNS=_COLUMNS_PER_PROGRAM,
            num_warps=_WARPS_PER_PROGRAM,
            enable_fp_fusion=True,
        )


@triton.jit
def _kernel(
    gates: tl.tensor,
    cell: tl.tensor,
    memory: tl.tensor,
    gates_stride: tl.tensor,
    cell_stride: tl.tensor,
    memory_stride: tl.tensor,
    width: tl.tensor,
    CLIP: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    gates += row * gates_stride + column
    cell += row * cell_stride + column
    memory += row * memory_stride + column
    i = tl.load(gates, mask=inside, other=0).to(tl.float32)
    j = tl.load(gates + width, mask=inside, other=0).to(tl.float32)
    f = tl.load(gates + 2 * width, mask=inside, other=0).to(tl.float32)
    o = tl.load(gates + 3 * width, mask=inside, other=0).to(tl.float32)
    c = _sigmoid(f) * tl.load(cell, mask=inside, other=0) + _sigmoid(i) * _tanh(j)
    if CLIP is not None:  # by comparisons, in which NaN stays NaN
        c = tl.where(c > CLIP, CLIP, c)
        c = tl.where(c < -CLIP, -CLIP, c)
    tl.store(cell, c, mask=inside)
    tl.store(memory, (_sigmoid(o) * _tanh(c)).to(memory.dtype.element_ty), mask=inside)


@triton.jit
def _sigmoid(x: tl.tensor) -> tl.tensor:
    return 1 / (1 + tl.exp(-x))


@triton.jit
def _tanh(x: tl.tensor) -> tl.tensor:
    return 2 * _sigmoid(2 * x) - 1  # ±1 for large x; off by a few 1e-7, which near 0 is not small beside tanh x
