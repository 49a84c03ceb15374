"""The LSTM cell of a time step, for inference: on a GPU by a single kernel, of Triton's.

With few sentences a GPU computes a step's kernels faster than they are launched, so that fewer kernels are more speed.
Triton comes with PyTorch's builds for CUDA on Linux.  Its kernel is tried on a small cell before it is relied on; where
it is missing or wrong, PyTorch's kernels take its place.
"""

import functools
import logging
from collections.abc import Callable

import torch

from hf_elmo.lstm_cell import advance_cell

logger = logging.getLogger(__name__)

AdvanceCell = Callable[..., None]  # with the arguments of `advance_cell`

# Float32 in another order of operations, with the GPU's own exponential; bfloat16 rounds its results.
_TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 2**-8}
_TRIED_ROWS, _TRIED_WIDTH = 3, 520  # more than one program a row, the last of them in part


def fused_cell(
    device: torch.device, *, gates: torch.dtype, cell: torch.dtype, memory: torch.dtype, clip: float | None
) -> AdvanceCell | None:
    """The step as one kernel, or None where it cannot be had: then it is `advance_cell`.

    Args:
        device: of the tensors.
        gates, memory: their dtypes, float32 or bfloat16.
        cell: its dtype, float32; there is no kernel for float64.
        clip: the bound that the step will be called with.
    """
    if device.type != "cuda" or cell != torch.float32 or not {gates, memory} <= _TOLERANCES.keys():
        return None
    return _tried(device, gates, memory, clip)


@functools.cache
def _tried(device: torch.device, gates: torch.dtype, memory: torch.dtype, clip: float | None) -> AdvanceCell | None:
    try:
        from hf_elmo.fused_cell_kernel import advance_cell_in_one_kernel

        why = _whats_wrong(advance_cell_in_one_kernel, device, gates, memory, clip)
    except Exception as failure:  # of many kinds: what a library that does not load, a compiler and a driver may raise
        if isinstance(failure, ModuleNotFoundError) and failure.name == "triton":
            logger.info(f"LSTM cells on {device} are computed kernel by kernel, which is slower: no Triton here.")
            return None
        why = f"failed with {type(failure).__name__}: {failure}"
    if why is None:
        return advance_cell_in_one_kernel
    logger.warning(f"LSTM cells on {device} are computed kernel by kernel, which is slower: Triton's kernel {why}")
    return None


@torch.inference_mode()
def _whats_wrong(
    step: AdvanceCell, device: torch.device, gates: torch.dtype, memory: torch.dtype, clip: float | None
) -> str | None:
    """Try a step on random numbers, in rows that lie apart; None if it is right."""
    generator = torch.Generator().manual_seed(0)
    all_gates = (3 * torch.randn(_TRIED_ROWS, 4 * _TRIED_WIDTH, generator=generator)).to(gates)
    before = torch.randn(_TRIED_ROWS, _TRIED_WIDTH, generator=generator)
    expected_cell, expected_memory = before.clone(), torch.empty_like(before)
    advance_cell(all_gates.to(torch.float32, copy=True), expected_cell, expected_memory, cell_clip=clip)
    found_cell = torch.empty(_TRIED_ROWS, 2 * _TRIED_WIDTH, device=device)[:, :_TRIED_WIDTH].copy_(before)
    found_memory = torch.full((_TRIED_ROWS, _TRIED_WIDTH), torch.nan, device=device, dtype=memory)
    step(all_gates.to(device), found_cell, found_memory, cell_clip=clip)
    for name, found, expected in (("cell", found_cell, expected_cell), ("memory", found_memory, expected_memory)):
        tolerance, found = _TOLERANCES[found.dtype], found.float().cpu()
        if not torch.allclose(found, expected, rtol=tolerance, atol=_TOLERANCES[torch.float32]):
            return f"computed a {name} that is off by up to {(found - expected).abs().max():.2g}."
    return None
