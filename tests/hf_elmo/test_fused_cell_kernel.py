"""Triton's kernel of the cell, without a GPU: in Triton's interpreter, and compiled for two GPUs."""

import importlib.util
import itertools
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from hf_elmo import fused_cell, packed_lstm, paired_lstm
from hf_elmo.lstm_cell import advance_cell
from hf_elmo.packed_lstm import PackedLSTM
from hf_elmo.paired_lstm import PairedLSTM
from hf_elmo.projected_lstm import ProjectedLSTM
from tests.hf_elmo.models import randomise
from tests.oracles import numpy_cell

pytest.importorskip("triton", reason="Triton is not installed; it comes with PyTorch's builds for CUDA on Linux")

SOURCE = Path(fused_cell.__file__).with_name("fused_cell_kernel.py")
DTYPES = [(torch.float32, torch.float32), (torch.bfloat16, torch.bfloat16), (torch.bfloat16, torch.float32)]
# Triton's interpreter cuts numbers to bfloat16, where a GPU rounds them.
ROUNDING = {torch.float32: 1e-6, torch.bfloat16: 2**-7}
# NumPy tells of exp(100) in float32, which is infinite as it should be.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value encountered")


def _kernel(interpreted: bool) -> ModuleType:
    """Its module anew, since Triton chooses when a kernel is defined."""
    name = f"fused_cell_kernel_{'interpreted' if interpreted else 'compiled'}"
    spec = importlib.util.spec_from_file_location(name, SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, module)
        patch.setenv("TRITON_INTERPRET", "1" if interpreted else "0")
        spec.loader.exec_module(module)
    return module


INTERPRETED = _kernel(interpreted=True)


def _apart(values: Tensor, gap: int) -> Tensor:
    """The same numbers in rows that lie `gap` numbers apart, between NaN."""
    held = torch.full((values.shape[0] + 1, values.shape[1] + gap), torch.nan, dtype=values.dtype)
    rows = held[1:, : values.shape[1]]
    return rows.copy_(values)


def _check(gates: Tensor, cell: Tensor, memory: Tensor, clip: float | None) -> None:
    before = gates.clone()
    expected_cell, expected_memory = numpy_cell.step(gates.float().numpy(), cell.numpy(), clip)
    INTERPRETED.advance_cell_in_one_kernel(gates, cell, memory, cell_clip=clip)
    np.testing.assert_allclose(cell, expected_cell, rtol=1e-6, atol=5e-7)
    np.testing.assert_allclose(memory.float(), expected_memory, rtol=ROUNDING[memory.dtype], atol=5e-7)
    torch.testing.assert_close(gates, before, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtypes", DTYPES, ids=str)
@given(
    n=st.integers(1, 4),
    width=st.integers(1, 40) | st.integers(505, 520) | st.integers(1020, 1030),
    clip=st.none() | st.floats(0.1, 4),
    gap=st.integers(0, 3),
    scale=st.sampled_from([0.01, 1.0, 3.0, 200.0]),
    seed=st.integers(0, 999),
)
@example(n=1, width=1, clip=None, gap=0, scale=1.0, seed=0)
@example(n=1, width=1, clip=0.1, gap=1, scale=1.0, seed=0)
@example(n=2, width=512, clip=3.0, gap=0, scale=1.0, seed=0)
@settings(max_examples=30)
def test_the_kernel_equals_the_oracle(
    dtypes: tuple[torch.dtype, torch.dtype], n: int, width: int, clip: float | None, gap: int, scale: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    gates = _apart((torch.randn(n, 4 * width, generator=generator) * scale).to(dtypes[0]), gap)
    cell = _apart(torch.randn(n, width, generator=generator) * 2, gap)
    memory = _apart(torch.zeros(n, width, dtype=dtypes[1]), gap)
    _check(gates, cell, memory, clip)
    for tensor in (cell, memory):  # what lies between the rows is left alone
        between = tensor._base
        assert between is not None
        assert between[:1].isnan().all()
        assert between[:, width:].isnan().all()


@pytest.mark.parametrize("clip", [None, 0.5, 3.0])
def test_large_and_missing_numbers_come_out_as_from_the_oracle(clip: float | None) -> None:
    """Gates up to infinity saturate, and NaN stays NaN, clipped or not."""
    odd = (-torch.inf, -100.0, -1e-6, 0.0, 100.0, torch.inf, torch.nan)
    cells = (-1e30, -1.0, 0.0, 2.0, torch.nan)
    i, j, f, o, cell = torch.tensor(list(itertools.product(odd, odd, odd, odd, cells))).t()
    gates, cell = torch.cat([i, j, f, o]).unsqueeze(0), cell.clone().unsqueeze(0)
    plain_cell, plain_memory = cell.clone(), torch.empty_like(cell)
    advance_cell(gates.clone(), plain_cell, plain_memory, cell_clip=clip)
    memory = torch.zeros_like(cell)
    _check(gates, cell, memory, clip)
    assert cell.isnan().any()
    assert torch.equal(cell.isnan(), plain_cell.isnan())
    assert torch.equal(memory.isnan(), plain_memory.isnan())
    assert clip is None or cell[~cell.isnan()].abs().max() == clip


@pytest.mark.parametrize("x", [-100.0, 100.0])
def test_tanh_saturates_exactly(x: float) -> None:
    gates = torch.tensor([[100.0, x, 0.0, 100.0]])
    cell, memory = torch.zeros(1, 1), torch.zeros(1, 1)
    INTERPRETED.advance_cell_in_one_kernel(gates, cell, memory, cell_clip=None)
    assert cell.item() == np.sign(x)


@pytest.mark.parametrize("gates", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("clip", [None, 0.5])
def test_the_trial_finds_the_kernel_right(gates: torch.dtype, clip: float | None) -> None:
    assert (
        fused_cell._whats_wrong(INTERPRETED.advance_cell_in_one_kernel, torch.device("cpu"), gates, torch.float32, clip)
        is None
    )


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-6), ("bf16", 0.02)])
@pytest.mark.parametrize("lstm_size", [7, 4])
def test_a_batch_read_with_the_kernel(
    precision: Any, tolerance: float, lstm_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lstm = ProjectedLSTM(projection_size=4, lstm_size=lstm_size, cell_clip=0.4, projection_clip=0.2)
    randomise(lstm, std=0.7)

    def read() -> list[Tensor]:
        generator = torch.Generator().manual_seed(0)
        inputs, cell, hidden = (torch.randn(n, k, generator=generator) for n, k in ((9, 4), (3, lstm_size), (3, 4)))
        packed = PackedLSTM(lstm, dtype=torch.float32, precision=precision)
        with torch.inference_mode():
            return [packed.read(inputs, [3, 3, 2, 1], cell, hidden), cell, hidden]

    expected = read()
    used = []

    def step(*arguments: Any, **clip: Any) -> None:
        used.append(arguments)
        INTERPRETED.advance_cell_in_one_kernel(*arguments, **clip)

    monkeypatch.setattr(packed_lstm, "fused_cell", lambda device, **dtypes: step)
    for one, other in zip(read(), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)
    assert len(used) == 4


@pytest.mark.parametrize("lstm_size", [7, 4])
def test_a_sentence_read_with_the_kernel(lstm_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lstms = [
        ProjectedLSTM(projection_size=4, lstm_size=lstm_size, cell_clip=0.4, projection_clip=0.2) for _ in range(2)
    ]
    randomise(torch.nn.ModuleList(lstms), std=0.7)

    def read() -> list[Tensor]:
        generator = torch.Generator().manual_seed(0)
        shapes = (5, 2, 4), (2, 1, lstm_size), (2, 1, 4)
        inputs, cell, hidden = (torch.randn(shape, generator=generator) for shape in shapes)
        paired = PairedLSTM(lstms, dtype=torch.float32)
        with torch.inference_mode():
            return [paired.read(inputs, cell, hidden), cell, hidden]

    expected = read()
    used = []

    def step(*arguments: Any, **clip: Any) -> None:
        used.append(arguments)
        INTERPRETED.advance_cell_in_one_kernel(*arguments, **clip)

    monkeypatch.setattr(paired_lstm, "fused_cell", lambda device, **dtypes: step)
    for one, other in zip(read(), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
    assert len(used) == 5


@pytest.mark.parametrize("compute_capability", [80, 90])
@pytest.mark.parametrize(
    ("dtypes", "clip", "width"),
    [
        *((dtypes, 3.0, "a multiple of 16") for dtypes in DTYPES),
        (DTYPES[0], None, "a multiple of 16"),
        (DTYPES[0], 3.0, "any"),
        (DTYPES[0], 3.0, "one"),
    ],
    ids=str,
)
def test_the_kernel_compiles(
    dtypes: tuple[torch.dtype, torch.dtype],
    clip: float | None,
    width: str,
    compute_capability: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To machine code, as it would be at its first call: Triton compiles anew for widths of 1 and of 16 k."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernel = _kernel(interpreted=False)
    names = {torch.float32: "*fp32", torch.bfloat16: "*bf16"}
    signature = {"gates": names[dtypes[0]], "cell": "*fp32", "memory": names[dtypes[1]]}
    numbers = ("gates_stride", "cell_stride", "memory_stride", "width")
    constants: dict[str, Any] = {"CLIP": clip, "COLUMNS": kernel._COLUMNS_PER_PROGRAM}
    if width == "one":
        constants |= dict.fromkeys(numbers[1:], 1)
    signature |= {name: "i32" for name in numbers} | {name: "constexpr" for name in constants}
    even = {(k,): [["tt.divisibility", 16]] for k in range(7)} if width == "a multiple of 16" else {}
    compiled = triton.compile(
        ASTSource(kernel._kernel, signature, constants, even),
        target=GPUTarget("cuda", compute_capability, 32),
        options={"num_warps": kernel._WARPS_PER_PROGRAM, "enable_fp_fusion": True},
    )
    assert f".target sm_{compute_capability}" in compiled.asm["ptx"]
    assert compiled.asm["cubin"].startswith(b"\x7fELF")
    assert ("cvt.rn.bf16" in compiled.asm["ptx"]) == (dtypes[1] == torch.bfloat16)  # to the nearest
    accesses = re.findall(r"(@%p\d+ )?\b(?:ld|st)\.global\b", compiled.asm["ptx"])
    assert len(accesses) >= 7  # four gates, the cell twice, the memory
    assert all(accesses)  # none without a condition, so that nothing beyond a row's end is touched
    if width == "a multiple of 16":  # the cell is read and written 16 bytes at a time
        for instruction in ("ld", "st"):
            assert re.search(rf"\b{instruction}\.global\.v4\.", compiled.asm["ptx"])
