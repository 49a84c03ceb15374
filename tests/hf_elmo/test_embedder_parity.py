"""The embedder computes what the original computes, by whichever kernels and in whichever parts."""

import functools
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_elmo import ElmoModel, packed_bilm, prepacked_linear
from hf_elmo.convert.conversion import load_original
from hf_elmo.embedder import ElmoEmbedder
from tests.hf_elmo.models import WORDS, converted, original_files, random_model
from tests.hf_elmo.test_independence import batches
from tests.lstm_reads import record_reads
from tests.oracles import numpy_elmo, random_weights
from tests.oracles.plain_torch import PlainTorchElmo

SENTENCES = [WORDS, WORDS[:1], WORDS[3:8], [], WORDS[2:9], WORDS[:1]]
TOLERANCE = 1e-5


@pytest.fixture(params=[True, False], ids=["prepacked", "plain"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """oneDNN's where they are, and the plain products that take their place elsewhere."""
    if not request.param:
        monkeypatch.setattr(prepacked_linear, "onednn_works", lambda dtype: False)
    elif not prepacked_linear.onednn_works(torch.float32):
        pytest.skip("no kernels for prepacked weights here")


def _close(found: list[np.ndarray], expected: list[np.ndarray], tolerance: float = TOLERANCE) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("name", ["tiny", "small", *random_weights.ODD])
def test_all_layers_equal_the_oracle(name: str, tmp_path: Path) -> None:
    options = random_weights.options(name)
    weights = random_weights.random_weights(options, seed=1)
    embedder = ElmoEmbedder(converted(tmp_path, options, weights))
    expected, _ = numpy_elmo.embed_batch(SENTENCES, options, weights)
    _close(embedder.embed(SENTENCES, layers="all"), expected)
    for sentence, wanted in zip(SENTENCES, expected, strict=True):  # by the kernels for one sentence
        _close(embedder.embed([sentence], layers="all"), [wanted])
        _close(embedder.embed([sentence]), [wanted.mean(axis=0)])


@pytest.mark.slow
@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("name", ["medium", "original"])
def test_the_large_sizes_equal_the_oracle(name: str, tmp_path: Path) -> None:
    options = random_weights.options(name)
    weights = random_weights.random_weights(options, seed=2)
    embedder = ElmoEmbedder(converted(tmp_path, options, weights))
    sentences = [WORDS[:4], WORDS[4:7], WORDS[7:9]]
    expected, _ = numpy_elmo.embed_batch(sentences, options, weights)
    _close(embedder.embed(sentences, layers="all"), expected)
    _close(embedder.embed(sentences[1:2], layers="all"), expected[1:2])


@pytest.mark.usefixtures("kernels")
def test_on_wild_weights_the_error_is_of_the_plain_loops_size(tmp_path: Path) -> None:
    """Such weights amplify any rounding: what can be asked is that ours is not coarser."""
    ours, plain = [], []
    for seed in range(5):
        options = random_weights.options("tiny")
        weights = random_weights.random_weights(options, seed=seed, tame=False)
        (folder := tmp_path / str(seed)).mkdir()
        embedder = ElmoEmbedder(converted(folder, options, weights))
        loop = PlainTorchElmo(options, weights)
        expected, _ = numpy_elmo.embed_batch(SENTENCES, options, weights)
        for errors, found in (
            (ours, embedder.embed(SENTENCES, layers="all")),
            (plain, loop.embed(SENTENCES, batch_size=len(SENTENCES))),
        ):
            errors += [np.square(one - other).sum() for one, other in zip(found, expected, strict=True)]
    assert 0 < sum(ours) < 3**2 * sum(plain)


@pytest.mark.parametrize("seed", range(3))
@settings(max_examples=15)
@given(batch=batches)
def test_on_wild_weights_no_batch_is_much_coarser_than_the_plain_loops(seed: int, batch: list[list[str]]) -> None:
    options, weights = _wild(seed)
    embedder, loop = _wild_models(seed)
    expected, _ = numpy_elmo.embed_batch(batch, options, weights)
    ours, plain = (
        max(
            (float(np.abs(one - other).max(initial=0.0)) for one, other in zip(found, expected, strict=True)), default=0
        )
        for found in (embedder.embed(batch, layers="all"), loop.embed(batch, batch_size=max(1, len(batch))))
    )
    # A short sentence may come out right to the last bit by either way; one rounding of the largest numbers is granted.
    assert ours <= 5 * plain + 2**-22


@functools.cache
def _wild(seed: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    options = random_weights.options("tiny")
    return options, random_weights.random_weights(options, seed=seed, tame=False)


@functools.cache
def _wild_models(seed: int) -> tuple[ElmoEmbedder, PlainTorchElmo]:
    with tempfile.TemporaryDirectory() as folder:
        return ElmoEmbedder(converted(Path(folder), *_wild(seed))), PlainTorchElmo(*_wild(seed))


@pytest.mark.usefixtures("kernels")
@settings(max_examples=30)
@given(batch=batches, positions=st.integers(1, 20))
def test_ragged_batches_read_in_parts_equal_the_model(batch: list[list[str]], positions: int) -> None:
    model = random_model(num_hidden_layers=3)
    with torch.no_grad():
        expected = [ElmoEmbedder(model.double()).embed([sentence], layers="all")[0] for sentence in batch]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed_bilm, "POSITIONS_PER_READ", positions)
        _close(ElmoEmbedder(model.float()).embed(batch, layers="all"), expected)


def test_a_warm_state_comes_before_each_sentence(tmp_path: Path) -> None:
    options = random_weights.options("tiny")
    weights = random_weights.random_weights(options, seed=3)
    model = converted(tmp_path, options, weights)
    generator = np.random.default_rng(0)
    state = numpy_elmo.State(*(generator.standard_normal(part.shape) for part in numpy_elmo.zero_state(options)))
    config = type(model.config)(**{**model.config.to_dict(), "initial_state": "warm"})
    warm = ElmoModel(config).eval()
    warm.load_state_dict(
        {
            **model.state_dict(),
            "initial_state.cell": torch.tensor(state.cell),
            "initial_state.hidden": torch.tensor(state.hidden),
        }
    )
    expected = [numpy_elmo.embed_sentence(words, options, weights, state)[0] for words in SENTENCES]
    _close(ElmoEmbedder(warm).embed(SENTENCES, layers="all"), expected)


def test_a_model_that_carries_its_state_starts_each_sentence_at_zero() -> None:
    """Carrying is between the caller's own batches (`CarriedState`); the embedder has no such order."""
    carrying, starting = (ElmoEmbedder(random_model(initial_state=state)) for state in ("carry", "zero"))
    for _ in range(2):
        _close(carrying.embed(SENTENCES), starting.embed(SENTENCES), 0.0)


def test_half_precision_weights_compute_in_single(tmp_path: Path) -> None:
    model = random_model().half()
    rounded = random_model().half().float()
    _close(ElmoEmbedder(model).embed(SENTENCES, layers="all"), ElmoEmbedder(rounded).embed(SENTENCES, layers="all"))


@pytest.mark.slow
def test_a_sentence_of_50_000_words_is_read_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = random_weights.options("tiny")
    weights = random_weights.random_weights(options, seed=5)
    embedder = ElmoEmbedder(load_original(*original_files(tmp_path, options, weights))[0])
    held = record_reads(monkeypatch)
    words = np.random.default_rng(0).integers(len(WORDS), size=50_000)
    (found,) = embedder.embed([[WORDS[word] for word in words]], layers="all")
    assert max(read.positions for read in held) == packed_bilm.POSITIONS_PER_READ == 1024
    assert sum(read.positions for read in held) == 4 * 50_002
    vectors = numpy_elmo.token_vectors(numpy_elmo.sentence_to_ids(WORDS), options, weights)  # with boundaries
    expected, _ = numpy_elmo.bilm(vectors[[0, *(words + 1), -1]], options, weights)
    np.testing.assert_allclose(found, expected[:, 1:-1], rtol=0, atol=TOLERANCE)


def test_threads_get_what_one_alone_gets() -> None:
    """From the first call on, in which the weights are packed, with a cache too small for all words."""
    model = random_model()
    words = [f"{a}{b}" for a in "abcdefgh" for b in "uvwxyz"]
    generator = np.random.default_rng(0)
    calls = [
        [generator.choice(words, size=generator.integers(0, 9)).tolist() for _ in range(generator.integers(1, 6))]
        for _ in range(60)
    ]
    alone = ElmoEmbedder(model)
    expected = [alone.embed(call, layers="all") for call in calls]
    shared = ElmoEmbedder(model, max_cached_words=20)
    with ThreadPoolExecutor(4) as pool:
        for found, wanted in zip(pool.map(lambda call: shared.embed(call, layers="all"), calls), expected, strict=True):
            _close(found, wanted)


@settings(max_examples=30)
@given(batch=batches, earlier=batches)
def test_words_seen_before_do_not_matter(batch: list[list[str]], earlier: list[list[str]]) -> None:
    model = random_model()
    expected = ElmoEmbedder(model, max_cached_words=0).embed(batch, layers="all")
    for capacity in (1, 3, 1000):
        embedder = ElmoEmbedder(model, max_cached_words=capacity)
        embedder.embed(earlier)
        for _ in range(2):
            _close(embedder.embed(batch, layers="all"), expected)
