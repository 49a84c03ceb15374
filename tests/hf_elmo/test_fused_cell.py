"""The cell of a step: PyTorch's kernels against the oracle, and when a fused one takes their place."""

import logging
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hf_elmo import fused_cell, packed_lstm
from hf_elmo.fused_cell import AdvanceCell
from hf_elmo.lstm_cell import advance_cell
from hf_elmo.packed_lstm import PackedLSTM
from hf_elmo.projected_lstm import ProjectedLSTM
from tests.hf_elmo.models import randomise
from tests.oracles import numpy_cell

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
KERNEL = "hf_elmo.fused_cell_kernel"


@given(n=st.integers(1, 4), width=st.integers(1, 9), clip=st.sampled_from([None, 0.3, 3.0]), seed=st.integers(0, 999))
def test_pytorchs_kernels_equal_the_oracle(n: int, width: int, clip: float | None, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    gates, cell = (torch.randn(n, k * width, generator=generator, dtype=torch.float64) for k in (4, 1))
    expected_cell, expected_memory = numpy_cell.step(gates.numpy(), cell.numpy(), clip)
    memory = torch.empty_like(cell)
    advance_cell(gates, cell, memory, cell_clip=clip)
    np.testing.assert_allclose(cell, expected_cell, rtol=0, atol=1e-14)
    np.testing.assert_allclose(memory, expected_memory, rtol=0, atol=1e-14)


def _rounding(gates: Tensor, cell: Tensor, memory: Tensor, *, cell_clip: float | None) -> None:
    """What a kernel is to do: float32 inside, gates and memory as they come."""
    read = torch.empty_like(cell)
    advance_cell(gates.float(), cell, read, cell_clip=cell_clip)
    memory.copy_(read)


def _swapped(gates: Tensor, cell: Tensor, memory: Tensor, *, cell_clip: float | None) -> None:
    i, j, f, o = gates.chunk(4, dim=1)
    _rounding(torch.cat([i, f, j, o], dim=1), cell, memory, cell_clip=cell_clip)


def _forgetful(gates: Tensor, cell: Tensor, memory: Tensor, *, cell_clip: float | None) -> None:
    _rounding(gates, cell.clone(), memory, cell_clip=cell_clip)


def _unclipped(gates: Tensor, cell: Tensor, memory: Tensor, *, cell_clip: float | None) -> None:
    _rounding(gates, cell, memory, cell_clip=None)


def _failing(gates: Tensor, cell: Tensor, memory: Tensor, *, cell_clip: float | None) -> None:
    raise RuntimeError("no such instruction")


def _idle(gates: Tensor, cell: Tensor, memory: Tensor, *, cell_clip: float | None) -> None:
    pass


def _tried(monkeypatch: pytest.MonkeyPatch, kernel: Any, dtype: torch.dtype = torch.float32) -> AdvanceCell | None:
    """The choice where `kernel` is the module with Triton's; made on the CPU, as on any device."""
    monkeypatch.setitem(sys.modules, KERNEL, kernel)
    return fused_cell._tried.__wrapped__(CPU, dtype, dtype, 0.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_kernel_that_is_right_is_used(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert _tried(monkeypatch, SimpleNamespace(advance_cell_in_one_kernel=_rounding), dtype) is _rounding
    assert not caplog.records


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (_swapped, "computed a cell that is off by"),
        (_forgetful, "computed a cell that is off by"),
        (_unclipped, "computed a cell that is off by"),
        (_idle, "computed a cell that is off by"),
        (_failing, "failed with RuntimeError: no such instruction"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_kernel_that_is_wrong_or_fails_is_not_used_and_the_log_says_why(
    step: AdvanceCell, why: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert _tried(monkeypatch, SimpleNamespace(advance_cell_in_one_kernel=step), dtype) is None
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.name == "hf_elmo.fused_cell"
    assert why in record.getMessage()


def test_a_memory_that_is_not_written_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def halfway(gates: Tensor, cell: Tensor, memory: Tensor, *, cell_clip: float | None) -> None:
        _rounding(gates, cell, torch.empty_like(memory), cell_clip=cell_clip)

    assert _tried(monkeypatch, SimpleNamespace(advance_cell_in_one_kernel=halfway)) is None


def test_that_triton_is_missing_is_no_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delitem(sys.modules, KERNEL, raising=False)
    monkeypatch.setitem(sys.modules, "triton", None)
    with caplog.at_level(logging.INFO, logger="hf_elmo.fused_cell"):
        assert fused_cell._tried.__wrapped__(CPU, torch.float32, torch.float32, None) is None
    (record,) = caplog.records
    assert (record.levelname, "no Triton here" in record.getMessage()) == ("INFO", True)


def test_a_kernel_is_tried_once_on_a_device_and_only_where_it_may_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def whats_wrong(*arguments: Any) -> None:
        tried.append(arguments[1:])

    monkeypatch.setattr(fused_cell, "_whats_wrong", whats_wrong)
    monkeypatch.setitem(sys.modules, KERNEL, SimpleNamespace(advance_cell_in_one_kernel=_rounding))
    float32, float64, bfloat16 = torch.float32, torch.float64, torch.bfloat16
    fused_cell._tried.cache_clear()
    try:
        assert fused_cell.fused_cell(CPU, gates=float32, cell=float32, memory=float32, clip=None) is None
        assert fused_cell.fused_cell(GPU, gates=float64, cell=float64, memory=float64, clip=None) is None
        assert fused_cell.fused_cell(GPU, gates=bfloat16, cell=float64, memory=bfloat16, clip=None) is None
        assert not tried
        for _ in range(2):
            assert fused_cell.fused_cell(GPU, gates=bfloat16, cell=float32, memory=float32, clip=3.0) is _rounding
        assert tried == [(GPU, bfloat16, float32, 3.0)]
    finally:
        fused_cell._tried.cache_clear()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(("lstm_size", "projection_clip"), [(7, 0.2), (7, None), (4, None)])
def test_what_a_kernel_reads_and_writes_changes_no_bit(
    lstm_size: int, projection_clip: float | None, precision: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With bf16 gates and memory stay as the products have them, which rounds nothing that was not rounded."""
    lstm = ProjectedLSTM(projection_size=4, lstm_size=lstm_size, cell_clip=0.4, projection_clip=projection_clip)
    randomise(lstm, std=0.7)
    seen: list[dict[str, Any]] = []

    def rounding(device: torch.device, **dtypes: Any) -> AdvanceCell:
        def step(gates: Tensor, cell: Tensor, memory: Tensor, *, cell_clip: float | None) -> None:
            seen.append({"gates": gates.dtype, "cell": cell.dtype, "memory": memory.dtype, "clip": cell_clip})
            assert seen[-1] == dtypes
            _rounding(gates, cell, memory, cell_clip=cell_clip)

        return step

    def read() -> list[Tensor]:
        generator = torch.Generator().manual_seed(0)
        inputs, cell, hidden = (torch.randn(n, k, generator=generator) for n, k in ((6, 4), (3, lstm_size), (3, 4)))
        packed = PackedLSTM(lstm, dtype=torch.float32, precision=precision)
        with torch.inference_mode():
            return [packed.read(inputs, [3, 2, 1], cell, hidden), cell, hidden]

    expected = read()
    monkeypatch.setattr(packed_lstm, "fused_cell", rounding)
    for one, other in zip(read(), expected, strict=True):
        assert one.dtype == torch.float32
        assert torch.equal(one, other)
    rounded = torch.bfloat16 if precision == "bf16" else torch.float32
    read_by_projection = torch.float32 if lstm_size == 4 else rounded
    expected_dtypes = {"gates": rounded, "cell": torch.float32, "memory": read_by_projection, "clip": 0.4}
    assert seen == [expected_dtypes] * 3
