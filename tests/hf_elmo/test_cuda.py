"""On a CUDA GPU the model and the embedder compute what they compute on a CPU."""

import copy
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from hf_elmo.embedder import ElmoEmbedder
from hf_elmo.prepacked_linear import Precision
from tests.hf_elmo.models import WORDS, converted, ids, random_lm, random_model
from tests.oracles import numpy_elmo, random_weights

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
