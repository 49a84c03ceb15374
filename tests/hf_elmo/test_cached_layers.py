import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.cached_layers import CachedLayers
from hf_elmo.embedder import ElmoEmbedder
from hf_elmo.layer_cache import LayerCache
from tests.hf_elmo.models import WORDS, random_model

MODEL = random_model()
SENTENCES = [["The", "dog", "let", "out"], ["a", "sharp", "bark", "."], ["東京"], ["naïve", "x" * 60, "."]]


class Counting(ElmoEmbedder):
    """Notes what it was asked for."""

    def __init__(self, model) -> None:
        super().__init__(model)
        self.read: list[tuple[str, ...]] = []

    def embed(self, sentences, **options):
        sentences = list(sentences)
        self.read += map(tuple, sentences)
        return super().embed(sentences, **options)


@pytest.mark.parametrize("options", [{"max_bytes": 10**7}, {"folder": "f"}, {"max_bytes": 10**7, "folder": "f"}, {}])
def test_vectors_are_those_without_a_cache_to_the_bit(tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    expected = ElmoEmbedder(MODEL).embed(SENTENCES, layers="all")
    for _ in range(2):
        cached = CachedLayers(ElmoEmbedder(MODEL), LayerCache(**options))
        for _ in range(2):
            for got, exact in zip(cached.embed(SENTENCES), expected, strict=True):
                np.testing.assert_array_equal(got, exact)


@given(st.lists(st.lists(st.lists(st.sampled_from(WORDS), max_size=3), max_size=5), max_size=5))
def test_every_sentence_is_read_once(batches):
    counting = Counting(MODEL)
    cached = CachedLayers(counting, LayerCache(max_bytes=10**9))
    first: dict[tuple[str, ...], np.ndarray] = {}
    for batch in batches:
        for sentence, got in zip(batch, cached.embed(batch), strict=True):
            assert got.shape == (3, len(sentence), 12)
            np.testing.assert_array_equal(got, first.setdefault(tuple(sentence), got.copy()))
            (alone,) = ElmoEmbedder(MODEL).embed([sentence], layers="all")
            np.testing.assert_allclose(got, alone, rtol=0, atol=2e-6)
    assert sorted(counting.read) == sorted(first)
    assert cached.cache.statistics.misses == len(first)


def test_without_room_every_sentence_is_computed_each_time():
    counting = Counting(MODEL)
    cached = CachedLayers(counting, LayerCache())
    for _ in range(2):
        list(cached.embed([["a"], ["b"], ["a"]]))
    assert counting.read == [("a",), ("b",)] * 2


def test_changed_weights_are_other_weights():
    model = random_model()
    cached = CachedLayers(ElmoEmbedder(model), LayerCache(max_bytes=10**7))
    (before,) = cached.embed([["a"]])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
    (after,) = cached.embed([["a"]])
    (expected,) = ElmoEmbedder(model).embed([["a"]], layers="all")
    np.testing.assert_array_equal(after, expected)
    assert np.abs(after - before).max() > 1e-3


def test_another_precision_computes_for_itself():
    cache, counting = LayerCache(max_bytes=10**7), Counting(MODEL)
    for precision in ("fp32", "bf16", "fp32"):
        counting.precision = precision
        list(CachedLayers(counting, cache).embed([["a"]]))
    assert len(counting.read) == 2


def test_one_cache_serves_several_models():
    cache = LayerCache(max_bytes=10**7)
    other = random_model(num_hidden_layers=1)
    for _ in range(2):
        for model in (MODEL, other):
            (got,) = CachedLayers(ElmoEmbedder(model), cache).embed([["a"]])
            np.testing.assert_array_equal(got, ElmoEmbedder(model).embed([["a"]], layers="all")[0])


def test_what_the_embedder_refuses_is_refused():
    cached = CachedLayers(ElmoEmbedder(MODEL), LayerCache(max_bytes=10**7))
    with pytest.raises(ValueError, match=r"word 1 is 'b\\ud800'"):
        list(cached.embed([["a", "b\ud800"]]))
