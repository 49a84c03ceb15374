"""Products on weights laid out beforehand, and what takes their place."""

import platform
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo import prepacked_linear
from hf_elmo.prepacked_linear import check_precision, int8_works, linear, onednn_works, with_rounded_length

CPU = torch.device("cpu")
X86 = platform.machine().lower() in ("x86_64", "amd64")
shapes = given(st.integers(1, 150), st.integers(1, 40), st.integers(1, 40), st.booleans(), st.integers(0, 99))
needs_int8 = pytest.mark.skipif(not int8_works(), reason="this CPU has no 8-bit dot products")
needs_bf16 = pytest.mark.skipif(not onednn_works(torch.bfloat16), reason="oneDNN has no bfloat16 kernels here")


def _numbers(n: int, width: int, outputs: int, biased: bool, seed: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    x, weight, bias = (torch.randn(shape, generator=generator) for shape in ((n, width), (outputs, width), (outputs,)))
    return x, weight, bias if biased else None


@pytest.mark.skipif(not (X86 and torch.backends.mkldnn.is_available()), reason="PyTorch is built without oneDNN here")
def test_pytorch_still_has_onednns_operators() -> None:
    """They come without a promise: should one be renamed, the library only becomes slower, and this tells."""
    assert onednn_works(torch.float32), "mkldnn::_reorder_linear_weight and mkldnn::_linear_pointwise"
    assert callable(torch.ops.mkldnn._is_mkldnn_bf16_supported)
    if torch.ops.mkldnn._is_mkldnn_bf16_supported():
        assert onednn_works(torch.bfloat16)
    if torch.cpu._is_vnni_supported():
        assert int8_works(), "onednn::qlinear_prepack and onednn::qlinear_pointwise"


@pytest.mark.parametrize("prepacked", [True, False])
@shapes
def test_full_precision_is_the_plain_product(
    prepacked: bool, n: int, width: int, outputs: int, biased: bool, seed: int
) -> None:
    x, weight, bias = _numbers(n, width, outputs, biased, seed)
    with pytest.MonkeyPatch.context() as patch, torch.inference_mode():
        if not prepacked:
            patch.setattr(prepacked_linear, "onednn_works", lambda dtype: False)
        found = linear(weight, bias, "fp32")(x)
    assert found.dtype == torch.float32
    expected = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_double_precision_stays_so() -> None:
    x, weight, bias = (tensor.double() for tensor in _numbers(3, 4, 5, True, 0))
    torch.testing.assert_close(linear(weight, bias, "fp32")(x), F.linear(x, weight, bias), rtol=0, atol=1e-14)


@pytest.mark.parametrize("prepacked", [pytest.param(True, marks=needs_bf16), False])
@shapes
def test_bfloat16_errs_by_its_rounding(
    prepacked: bool, n: int, width: int, outputs: int, biased: bool, seed: int
) -> None:
    x, weight, bias = _numbers(n, width, outputs, biased, seed)
    with pytest.MonkeyPatch.context() as patch, torch.inference_mode():
        if not prepacked:
            patch.setattr(prepacked_linear, "onednn_works", lambda dtype: False)
        found = linear(weight, bias, "bf16")(x)
    assert found.dtype == torch.float32
    # Inputs, weights, bias and result are each rounded to 8 bits, by at most 2⁻⁸ of their size.
    largest = F.linear(x.abs(), weight.abs(), None if bias is None else bias.abs()).numpy()
    assert ((found - F.linear(x, weight, bias)).abs().numpy() <= 4 * 2**-8 * 1.02 * largest).all()
    assert n * outputs * width < 200 or not torch.equal(found, F.linear(x, weight, bias))


@needs_int8
@shapes
def test_int8_errs_by_its_rounding(n: int, width: int, outputs: int, biased: bool, seed: int) -> None:
    x, weight, bias = _numbers(n, width, outputs, biased, seed)
    with torch.inference_mode():
        found = linear(weight, bias, "int8")(x).numpy()
    step_x = x.abs().amax(1, keepdim=True).double().numpy() / 127  # (n, 1)
    step_weight = weight.abs().amax(1).double().numpy() / 127  # (outputs,)
    # Each factor is off by half a step at most.
    bound = (
        step_x / 2 * weight.abs().sum(1).numpy()
        + step_weight / 2 * x.abs().sum(1, keepdim=True).numpy()
        + width * step_x * step_weight / 4
    )
    expected = F.linear(x.double(), weight.double(), None if bias is None else bias.double()).numpy()
    assert (np.abs(found - expected) <= bound + 1e-5).all()


@needs_int8
@pytest.mark.filterwarnings("error")
def test_int8_rows_do_not_depend_on_each_other() -> None:
    x, weight, bias = _numbers(9, 33, 17, True, 1)
    x[4] *= 1000
    x[5] = 0
    product = linear(weight, bias, "int8")
    with torch.inference_mode():
        together = product(x)
        for number in range(len(x)):
            torch.testing.assert_close(together[number], product(x[number : number + 1])[0], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(together[5], bias)


@given(st.integers(0, 3000))
def test_lengths_are_rounded_up_a_little(n: int) -> None:
    x = torch.arange(3 * n).view(n, 3) + 1
    found = with_rounded_length(x)
    assert torch.equal(found[:n], x)
    assert not found[n:].any()
    assert n <= len(found) <= n * 17 / 16


def test_few_lengths_are_left() -> None:
    """Each is a kernel in memory."""
    lengths = {len(with_rounded_length(torch.empty(n, 0))) for n in range(1, 4097)}
    assert lengths >= set(range(1, 33))  # those of small batches stay
    assert len(lengths) == 32 + 7 * 16


def test_kernels_that_are_missing_or_wrong_are_not_used() -> None:
    def missing(weight: Any, bias: Any) -> Any:
        return torch.ops.mkldnn.an_operator_that_was_renamed

    def changed(weight: Any, bias: Any) -> Any:
        return torch.ops.mkldnn._linear_pointwise(1, 2, 3, 4, 5, 6, 7)

    def wrong(weight: Any, bias: Any) -> Any:
        return lambda x: F.linear(x, weight, bias) * 1.001

    def saturating(weight: Any, bias: Any) -> Any:
        pairs = lambda x: torch.stack([(x[:, k : k + 2] @ weight[:, k : k + 2].t()) for k in range(0, 32, 2)])  # noqa: E731
        return lambda x: pairs(x).clamp(-(2**14), 2**14).sum(0) + bias

    def right(weight: Any, bias: Any) -> Any:
        return lambda x: F.linear(x, weight, bias)

    found = [prepacked_linear._is_right(kind, 1e-6) for kind in (missing, changed, wrong, saturating, right)]
    assert found == [False, False, False, False, True]


def test_a_precision_that_cannot_be_is_refused_with_what_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="got 'fp16'; expected one of 'fp32', 'bf16', 'int8'"):
        check_precision("fp16")
    check_precision("fp32", torch.device("meta"))
    with pytest.raises(ValueError, match=r"'int8', which needs 8-bit .* this device \(meta\) has none; use 'fp32'"):
        check_precision("int8", torch.device("meta"))
    with pytest.raises(ValueError, match=r"'bf16', which this device \(meta\) has no .* use 'fp32'"):
        check_precision("bf16", torch.device("meta"))
    monkeypatch.setattr(prepacked_linear, "int8_works", lambda: False)
    monkeypatch.setattr(prepacked_linear, "onednn_works", lambda dtype: False)
    for precision in ("bf16", "int8"):
        with pytest.raises(ValueError, match=r"CPU.*; use 'fp32'"):
            check_precision(precision, CPU)
