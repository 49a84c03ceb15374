import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.layer_cache import LayerCache
from hf_elmo.layer_files import LayerFiles

W = "weights"


def layers(seed: int, words: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(3, words, 6)).astype("f")


ONE = layers(0).nbytes


@pytest.mark.parametrize("options", [{"max_bytes": 10**6}, {"folder": "c"}, {"max_bytes": 10**6, "folder": "c"}])
def test_what_was_put_is_what_is_got(tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    cache = LayerCache(**options)
    assert cache.get(W, ["a", "b"]) is None
    put = cache.put(W, ["a", "b"], layers(0))
    np.testing.assert_array_equal(put, layers(0))
    got = cache.get(W, ("a", "b"))
    np.testing.assert_array_equal(got, layers(0))
    assert not got.flags.writeable
    assert not put.flags.writeable
    assert cache.statistics.hits == cache.statistics.misses == 1


def test_half_precision_gives_the_same_first_and_later(tmp_path):
    for options in ({"max_bytes": 10**6}, {"folder": tmp_path}):
        cache = LayerCache(store_dtype="float16", **options)
        put = cache.put(W, ["a"], layers(0))
        got = cache.get(W, ["a"])
        assert put.dtype == got.dtype == np.float32
        np.testing.assert_array_equal(put, got)
        np.testing.assert_array_equal(got, layers(0).astype(np.float16))
        assert np.abs(got - layers(0)).max() > 0


def test_half_precision_refuses_what_it_cannot_hold():
    cache = LayerCache(store_dtype="float16", max_bytes=10**6)
    with pytest.raises(ValueError, match=r'"float16" for layers with numbers up to 70000.*"float32"'):
        cache.put(W, ["a"], np.full((3, 1, 6), 7e4, "f"))


words = st.lists(st.text(st.characters(), max_size=3), max_size=4)


@given(st.lists(st.tuples(st.sampled_from(["v", "vw", "w"]), words), max_size=8, unique_by=str))
def test_another_sentence_or_other_weights_are_never_mistaken(sentences):
    """Such as "ab" "c" for "a" "bc"."""
    cache = LayerCache(max_bytes=10**6)
    for number, (weights, sentence) in enumerate(sentences):
        assert cache.get(weights, sentence) is None
        cache.put(weights, sentence, layers(number))
    for number, (weights, sentence) in enumerate(sentences):
        np.testing.assert_array_equal(cache.get(weights, sentence), layers(number))


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6)), max_size=30))
def test_memory_holds_the_most_recently_used_within_the_bound(uses):
    """Against a list that is kept in order of use."""
    bound = 12 * ONE
    cache, expected = LayerCache(max_bytes=bound), []
    for number, length in uses:
        sentence = (str(number), str(length))
        known = cache.get(W, sentence)
        assert (known is not None) == (sentence in expected)
        if known is None:
            cache.put(W, sentence, layers(number, length))
            if layers(number, length).nbytes > bound // 8:
                continue
        else:
            expected.remove(sentence)
        expected.append(sentence)
        while sum(layers(0, int(n)).nbytes for _, n in expected) > bound:
            expected.pop(0)
        assert cache.statistics.bytes == sum(layers(0, int(n)).nbytes for _, n in expected) <= bound
        assert cache.statistics.sentences == len(expected)


def test_a_folder_serves_the_next_run(tmp_path):
    LayerCache(folder=tmp_path).put(W, ["a"], layers(0))
    later = LayerCache(folder=tmp_path, max_bytes=10**6)
    np.testing.assert_array_equal(later.get(W, ["a"]), layers(0))
    np.testing.assert_array_equal(later.get(W, ["a"]), layers(0))
    assert later.get("other weights", ["a"]) is None
    assert later.statistics[:3] == (1, 1, 1)
    assert LayerCache(folder=tmp_path, store_dtype="float16").get(W, ["a"]) is None


def test_another_version_of_the_package_computes_for_itself(tmp_path, monkeypatch):
    LayerCache(folder=tmp_path).put(W, ["a"], layers(0))
    monkeypatch.setattr("hf_elmo.layer_cache.__version__", "999")
    assert LayerCache(folder=tmp_path).get(W, ["a"]) is None


def test_a_copy_has_the_options_and_the_folder(tmp_path):
    cache = LayerCache(max_bytes=10**6, folder=tmp_path, max_folder_bytes=10**7, store_dtype="float16")
    cache.put(W, ["a"], layers(0))
    for copied in (pickle.loads(pickle.dumps(cache)), copy.deepcopy(cache)):
        assert copied.statistics.sentences == 0
        assert (copied.max_bytes, copied.folder) == (10**6, tmp_path)
        assert (copied.max_folder_bytes, copied.store_dtype) == (10**7, "float16")
        assert copied.get(W, ["a"]) is not None


def test_clearing_leaves_the_folder(tmp_path):
    cache = LayerCache(max_bytes=10**6, folder=tmp_path)
    cache.put(W, ["a"], layers(0))
    cache.clear()
    assert cache.statistics == (0, 0, 0, 0, 0)
    assert cache.get(W, ["a"]) is not None
    assert cache.statistics.folder_hits == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_bytes": -1}, "max_bytes: got -1"),
        ({"max_folder_bytes": -1}, "max_folder_bytes: got -1"),
        ({"store_dtype": "bfloat16"}, "store_dtype: got 'bfloat16'; expected one of 'float32', 'float16'"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LayerCache(**options)


def test_a_home_folder_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    LayerCache(folder="~/cache").put(W, ["a"], layers(0))
    assert list((tmp_path / "cache").glob("*/*.layers"))


def test_the_folder_is_bounded(tmp_path):
    cache = LayerCache(folder=tmp_path, max_folder_bytes=10 * ONE)
    for number in range(20):
        cache.put(W, [str(number)], layers(number))
    (group,) = tmp_path.iterdir()
    assert 6 <= len(LayerFiles(tmp_path, group=group.name, dtype="float32", max_bytes=10 * ONE)) < 10
