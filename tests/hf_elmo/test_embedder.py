"""What is particular to the embedder; that it equals the model is in test_independence.py."""

import copy
import itertools
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo import ElmoForTokenClassification
from hf_elmo.embedder import ElmoEmbedder
from hf_elmo.model_source import load_model
from hf_elmo.packed_character_cnn import PackedCharacterCNN
from hf_elmo.prepacked_linear import Precision, check_precision
from tests.hf_elmo.models import random_head, random_model

EMBEDDER = ElmoEmbedder(random_model())


def test_shapes() -> None:
    mixed = EMBEDDER.embed([["a", "b"], [], ["c"]])
    assert [vectors.shape for vectors in mixed] == [(2, 12), (0, 12), (1, 12)]
    assert all(vectors.dtype == np.float32 for vectors in mixed)
    layers = EMBEDDER.embed(iter([("a", "b"), ()]), layers="all")
    assert [vectors.shape for vectors in layers] == [(3, 2, 12), (3, 0, 12)]
    assert EMBEDDER.embed([]) == []


def test_vectors_can_be_written_to() -> None:
    vectors = EMBEDDER.embed([["a", "b"]])[0]
    vectors[0] = 0


@pytest.mark.parametrize(
    ("sentences", "error", "message"),
    [
        ([["fine"], ["a", 3]], TypeError, "sentence 1: word 1 is 3"),
        ([["a", "b\ud800"]], ValueError, r"sentence 0: word 1 is 'b\\ud800'"),
        ([["a", None]], TypeError, "word 1 is None"),
        (["not words"], TypeError, "sentence 0: got the string 'not words'"),
    ],
)
def test_words_that_are_none_are_refused(sentences: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        EMBEDDER.embed(sentences)


def test_sentences_of_a_stream_are_numbered_from_its_begin() -> None:
    stream = EMBEDDER.embed_stream(iter([["a"], ["b", "c"], ["d", 4]]), window=4)
    assert [next(stream).shape for _ in range(2)] == [(1, 12), (2, 12)]
    with pytest.raises(TypeError, match="sentence 2: word 1 is 4"):
        next(stream)
    with pytest.raises(TypeError, match="sentence 0: got the string"):
        next(EMBEDDER.embed_stream(["not words"]))


@given(
    sentences=st.lists(st.lists(st.sampled_from(["a", "bark", "東京"]), max_size=6), max_size=9),
    budget=st.integers(1, 30),
    window=st.none() | st.integers(1, 40),
)
def test_a_stream_keeps_its_order(sentences: list[list[str]], budget: int, window: int | None) -> None:
    embedder = ElmoEmbedder(EMBEDDER.model, max_words_per_batch=budget)
    found = list(embedder.embed_stream(iter(sentences), layers="all", window=window))
    for one, other in zip(found, embedder.embed(sentences, layers="all"), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


def test_a_stream_without_an_end_is_read_a_window_ahead() -> None:
    read: list[int] = []

    def endless() -> Iterator[list[str]]:
        for number in itertools.count():
            read.append(number)
            yield [f"w{number}"]

    stream = EMBEDDER.embed_stream(endless(), window=30)
    for number in range(25):
        assert next(stream).shape == (1, 12)
        assert len(read) == 10 * (number // 10 + 1)  # ten sentences of three positions fill a window


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="max_words_per_batch: got 0"):
        ElmoEmbedder(random_model(), max_words_per_batch=0)
    with pytest.raises(ValueError, match="max_cached_words: got -1"):
        ElmoEmbedder(random_model(), max_cached_words=-1)
    with pytest.raises(ValueError, match="precision: got 'fp8'; expected one of 'fp32', 'bf16', 'int8'"):
        ElmoEmbedder(random_model(), precision="fp8")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="window: got 0"):
        EMBEDDER.embed_stream([["a"]], window=0)


def test_words_are_remembered_and_counted() -> None:
    embedder = ElmoEmbedder(random_model(), max_cached_words=4)
    assert embedder.word_cache_statistics == (0, 0, 0, 4)
    embedder.embed([["a", "b", "a"]])
    assert embedder.word_cache_statistics == (0, 4, 4, 4)  # with both boundaries
    embedder.embed([["b"], ["c"]])
    assert embedder.word_cache_statistics == (3, 5, 4, 4)
    embedder.forget_words()
    assert embedder.word_cache_statistics == (0, 0, 0, 4)


def test_a_second_pass_spares_the_character_cnn(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = ElmoEmbedder(random_model(), max_words_per_batch=20)
    sentences = [["the", "dog", f"barks{number % 7}"] for number in range(30)]
    first = list(embedder.embed_stream(sentences, window=40))
    computed: list[int] = []
    compute = PackedCharacterCNN.__call__
    monkeypatch.setattr(
        PackedCharacterCNN, "__call__", lambda self, rows: computed.append(len(rows)) or compute(self, rows)
    )
    second = list(embedder.embed_stream(sentences, window=40))
    assert not computed
    for one, other in zip(second, first, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
    embedder.embed([["the", "cat"]])
    assert computed == [1]


@pytest.mark.parametrize(
    "parameter",
    [
        "character_cnn.embedding.weight",
        "character_cnn.highways.1.carry.bias",
        "layers.0.forward_lstm.gates.weight",
        "layers.1.backward_lstm.projection.weight",
        "scalar_mix.gamma",
    ],
)
@pytest.mark.parametrize("sentences", [[["a", "dog"]], [["a", "dog"], ["bark"]]], ids=["one", "two"])
def test_weights_that_change_are_packed_anew(parameter: str, sentences: list[list[str]]) -> None:
    model = random_model()
    embedder = ElmoEmbedder(model)
    before = embedder.embed(sentences)
    packed = embedder._current_weights()
    assert embedder._current_weights() is packed
    with torch.no_grad():
        model.get_parameter(parameter).mul_(2)
    after = embedder.embed(sentences)
    assert np.abs(after[0] - before[0]).max() > 1e-4
    for one, other in zip(after, ElmoEmbedder(model).embed(sentences), strict=True):
        np.testing.assert_array_equal(one, other)


def test_another_dtype_is_followed() -> None:
    embedder = ElmoEmbedder(random_model())
    single = embedder.embed([["a", "dog"]])[0]
    embedder.model.double()
    double = embedder.embed([["a", "dog"]])[0]
    assert double.dtype == np.float32
    np.testing.assert_allclose(single, double, rtol=0, atol=1e-5)
    assert not np.array_equal(single, double)


def test_copies_work_and_share_nothing() -> None:
    expected = EMBEDDER.embed([["a", "b"], ["c"]])
    for embedder in (copy.deepcopy(EMBEDDER), pickle.loads(pickle.dumps(EMBEDDER))):
        assert embedder.model is not EMBEDDER.model
        for one, other in zip(embedder.embed([["a", "b"], ["c"]]), expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("precision", "largest"), [("bf16", 0.02), ("int8", 0.08)])
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "batch"])
def test_lower_precision_rounds_the_shipped_models_lstms_and_nothing_else(
    precision: Precision, largest: float, alone: bool
) -> None:
    model = load_model()
    try:
        check_precision(precision, model.device)
    except ValueError as refused:
        pytest.skip(str(refused))
    sentences = [["The", "dog", "let", "out", "a", "sharp", "bark", "."], ["Beetles", "live", "under", "it", "."]]
    sentences = sentences[:1] if alone else sentences
    exact = np.concatenate(ElmoEmbedder(model).embed(sentences, layers="all"), axis=1)
    found = np.concatenate(ElmoEmbedder(model, precision=precision).embed(sentences, layers="all"), axis=1)
    np.testing.assert_allclose(found[0], exact[0], rtol=0, atol=1e-5)
    for layer in (1, 2):
        error = np.linalg.norm(found[layer] - exact[layer]) / np.linalg.norm(exact[layer])
        assert 1e-4 < error < largest


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (random_head(ElmoForTokenClassification), "got ElmoForTokenClassification; .* pass its biLM, model.elmo"),
        ("folder", r"got str; .* write ElmoEmbedder\.from_pretrained\(path\)"),
        (Path("folder"), r"Path; .* write ElmoEmbedder\.from_pretrained\(path\)"),
        (torch.nn.Linear(1, 1), r"got Linear; expected an ElmoModel\.$"),
    ],
)
def test_what_is_no_model_is_refused(given: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        ElmoEmbedder(given)


def test_a_compiled_model_is_the_model_that_it_wraps() -> None:
    model = random_model()
    compiled: Any = torch.compile(model)
    (expected,), (found,) = (list(ElmoEmbedder(one).embed([["a", "word"]])) for one in (model, compiled))
    np.testing.assert_array_equal(found, expected)
