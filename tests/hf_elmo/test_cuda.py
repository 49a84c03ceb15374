"""On a CUDA GPU the model and the embedder compute what they compute on a CPU."""

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from hf_elmo import fused_cell
from hf_elmo.embedder import ElmoEmbedder
from hf_elmo.prepacked_linear import Precision
from tests.hf_elmo.models import WORDS, converted, ids, random_lm, random_model
from tests.oracles import numpy_cell, numpy_elmo, random_weights

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")

SENTENCES = [WORDS, WORDS[:1], WORDS[3:8], [], WORDS[2:9]]


@pytest.fixture(params=["highest", "high"], ids=["fp32", "TF32"])
def tolerance(request: pytest.FixtureRequest) -> Iterator[float]:
    """Of values of size 1; TF32 products have 10 bits, and the layers add their errors up."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(request.param)
    yield {"highest": 1e-5, "high": 2e-2}[request.param]
    torch.set_float32_matmul_precision(before)


def test_the_embedder_equals_the_oracle(tmp_path, tolerance: float) -> None:
    options = random_weights.options("small")
    weights = random_weights.random_weights(options, seed=1)
    embedder = ElmoEmbedder(converted(tmp_path, options, weights).cuda())
    expected, _ = numpy_elmo.embed_batch(SENTENCES, options, weights)
    for found in (embedder.embed(SENTENCES, layers="all"), list(embedder.embed_stream(SENTENCES, layers="all"))):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


def test_the_embedder_follows_its_model() -> None:
    embedder = ElmoEmbedder(random_model())
    on_cpu = embedder.embed(SENTENCES)
    embedder.model.cuda()
    for one, other in zip(embedder.embed(SENTENCES), on_cpu, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
    embedder.model.cpu()
    for one, other in zip(embedder.embed(SENTENCES), on_cpu, strict=True):
        np.testing.assert_array_equal(one, other)


def test_bf16_rounds_the_lstms_and_nothing_else(tmp_path) -> None:
    if not torch.cuda.is_bf16_supported(including_emulation=False):
        pytest.skip("no bfloat16 on this GPU")
    options = random_weights.options("small")
    model = converted(tmp_path, options, random_weights.random_weights(options, seed=1)).cuda()
    exact = np.concatenate(ElmoEmbedder(model).embed(SENTENCES, layers="all"), axis=1)
    found = np.concatenate(ElmoEmbedder(model, precision="bf16").embed(SENTENCES, layers="all"), axis=1)
    np.testing.assert_allclose(found[0], exact[0], rtol=0, atol=1e-5)
    for layer in (1, 2):
        error = np.linalg.norm(found[layer] - exact[layer]) / np.linalg.norm(exact[layer])
        assert 1e-5 < error < 0.05


@pytest.mark.parametrize("sentences", [SENTENCES, SENTENCES[:1]], ids=["a batch", "a sentence"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_step_has_its_cell_in_one_kernel(
    precision: Precision, sentences: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = pytest.importorskip("hf_elmo.fused_cell_kernel", reason="Triton is not installed")
    if precision == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
        pytest.skip("no bfloat16 on this GPU")
    model = random_model().cuda()
    step, widths = kernel.advance_cell_in_one_kernel, []

    def counted(*arguments: Any, **clip: Any) -> None:
        widths.append(arguments[1].shape[-1])
        step(*arguments, **clip)

    with monkeypatch.context() as patch:
        patch.setattr(kernel, "advance_cell_in_one_kernel", counted)
        fused_cell._tried.cache_clear()
        embedder = ElmoEmbedder(model, precision=precision)
        embedder.embed(SENTENCES[:1])  # both ways of reading are chosen once
        embedder.embed(SENTENCES[1:3])
        widths.clear()
        found = np.concatenate(embedder.embed(sentences, layers="all"), axis=1)
        fused_cell._tried.cache_clear()
    steps = (max(map(len, sentences)) + 2) * model.config.num_hidden_layers
    assert widths == [model.config.lstm_size] * (steps if len(sentences) == 1 and precision == "fp32" else 2 * steps)
    monkeypatch.setattr(fused_cell, "_tried", lambda *_: None)
    plain = np.concatenate(ElmoEmbedder(model, precision=precision).embed(sentences, layers="all"), axis=1)
    assert np.linalg.norm(found - plain) <= {"fp32": 1e-6, "bf16": 1e-2}[precision] * np.linalg.norm(plain)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize(("n", "width"), [(1, 1), (1, 4096), (3, 520), (33, 100)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernel_of_the_cell_equals_the_oracle(
    dtype: torch.dtype, n: int, width: int, clip: float | None, number: int
) -> None:
    kernel = pytest.importorskip("hf_elmo.fused_cell_kernel", reason="Triton is not installed")
    if number >= torch.cuda.device_count():
        pytest.skip(f"no GPU {number} here")
    generator = torch.Generator().manual_seed(0)
    gates = (3 * torch.randn(n, 4 * width, generator=generator)).to(dtype)
    gates[0, 0], gates[-1, -1] = torch.nan, 100.0
    before = torch.randn(n, width, generator=generator)
    cell, memory = before.to(f"cuda:{number}"), torch.empty(n, width, dtype=dtype, device=f"cuda:{number}")
    kernel.advance_cell_in_one_kernel(gates.to(cell.device), cell, memory, cell_clip=clip)
    expected_cell, expected_memory = numpy_cell.step(gates.float().numpy(), before.numpy(), clip)
    rounding = {torch.float32: 2e-6, torch.bfloat16: 2**-8}[dtype]
    np.testing.assert_allclose(cell.cpu(), expected_cell, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(memory.float().cpu(), expected_memory, rtol=rounding, atol=2e-6)


@pytest.mark.parametrize("precision", ["int8"])
def test_what_a_gpu_cannot_do_is_refused(precision: Precision) -> None:
    with pytest.raises(ValueError, match="this GPU has none; use"):
        ElmoEmbedder(random_model().cuda(), precision=precision)


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_model_equals_itself_on_a_cpu(side: str, tolerance: float) -> None:
    model = random_model()
    character_ids, mask = ids([sentence for sentence in SENTENCES if sentence], side=side)
    with torch.no_grad():
        expected = model(character_ids, mask, output_hidden_states=True)
        found = model.cuda()(character_ids.cuda(), mask.cuda(), output_hidden_states=True)
    for one, other in zip(found.hidden_states, expected.hidden_states, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=0, atol=max(tolerance, 2e-5))
    torch.testing.assert_close(found.last_hidden_state.cpu(), expected.last_hidden_state, rtol=0, atol=tolerance * 2)


def test_half_precision_weights_compute() -> None:
    model = random_model()
    character_ids, mask = ids([WORDS])
    with torch.no_grad():
        expected = model(character_ids, mask).last_hidden_state
        found = model.to("cuda", torch.bfloat16)(character_ids.cuda(), mask.cuda()).last_hidden_state
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float().cpu(), expected, rtol=0.1, atol=0.1)


def test_gradients_equal_those_of_a_cpu() -> None:
    on_cpu = random_lm(lm_softmax="full", dropout=0.0).train()
    on_gpu = copy.deepcopy(on_cpu).cuda()
    character_ids, mask = ids([WORDS, WORDS[:5]])
    labels = torch.randint(1, 30, mask.shape, generator=torch.Generator().manual_seed(0)).masked_fill(mask == 0, -100)
    losses = []
    for model, device in ((on_cpu, "cpu"), (on_gpu, "cuda")):
        loss = model(character_ids.to(device), mask.to(device), labels=labels.to(device)).loss
        loss.backward()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for (name, one), other in zip(on_cpu.named_parameters(), on_gpu.parameters(), strict=True):
        torch.testing.assert_close(other.grad.cpu(), one.grad, rtol=1e-3, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
