import itertools

import numpy as np
import pytest
import spacy
from spacy.training import Example

from hf_elmo.embedder import ElmoEmbedder
from spacy_elmo.elmo_source import bilm_of
from tests.spacy_elmo.conftest import LAYERS, WIDTH
from tests.spacy_elmo.toy_tasks import add_consumer, make_examples, mixed_block, source_block, tok2vec_block

TEXTS = [
    "The dog let out a sharp bark . Then it slept .",
    "",
    "Beetles live under  the bark of the tree .",
    " \n ",
    "bark",
]
MEGABYTES = 10**7
PLACES = ["memory", "folder", "both"]


def options(place: str, folder) -> dict:
    return {
        **({"cache_size": MEGABYTES} if place != "folder" else {}),
        **({"cache_dir": str(folder)} if place != "memory" else {}),
    }


@pytest.fixture
def read(monkeypatch) -> list[tuple[str, ...]]:
    """Every sentence that a biLM reads."""
    sentences: list[tuple[str, ...]] = []
    embed = ElmoEmbedder.embed

    def noticed(self, given, **rest):
        given = list(given)
        sentences.extend(map(tuple, given))
        return embed(self, given, **rest)

    monkeypatch.setattr(ElmoEmbedder, "embed", noticed)
    return sentences


@pytest.mark.parametrize("listening", [False, True])
@pytest.mark.parametrize("layered", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_vectors_are_those_without_a_cache(make_nlp, tmp_path, place, layered, listening):
    """Layers to the bit; a mix of remembered layers is added up in another order than one of the biLM's own pass."""

    def build(**config):
        nlp = make_nlp("sentencizer", all_layers=layered, **config)
        if listening:
            add_consumer(nlp, "tagger", mixed_block(source_block("listener", "", width=WIDTH, layers=LAYERS)))
            nlp.initialize(lambda: make_examples(nlp))
        return nlp

    plain = list(build().get_pipe("elmo").pipe(map(plain_docs(build()), TEXTS)))
    for _ in range(2):  # the second finds the first one's folder
        nlp = build(**options(place, tmp_path))
        for _ in range(2):
            for doc, expected in zip(nlp.get_pipe("elmo").pipe(map(plain_docs(nlp), TEXTS)), plain, strict=True):
                np.testing.assert_allclose(doc._.elmo, expected._.elmo, atol=1e-6, rtol=0)
                np.testing.assert_array_equal(doc._.elmo_layers, expected._.elmo_layers)


def plain_docs(nlp):
    sentencizer = nlp.get_pipe("sentencizer")
    return lambda text: sentencizer(nlp.make_doc(text))


@pytest.mark.parametrize("kind", ["listener", "standalone"])
@pytest.mark.parametrize("place", PLACES)
def test_training_reads_every_sentence_once_in_total(make_nlp, tiny_folder, tmp_path, read, place, kind):
    """Over epochs, evaluations and, with a folder, runs."""
    for _run in range(2):
        nlp = make_nlp(**options(place, tmp_path)) if kind == "listener" else spacy.blank("en")
        source = source_block(kind, str(tiny_folder), width=WIDTH, layers=LAYERS)
        if kind == "standalone":
            source.update(options(place, tmp_path))
        add_consumer(nlp, "tagger", tok2vec_block(source))
        examples = make_examples(nlp, count=20)
        optimizer = nlp.initialize(lambda examples=examples: examples)
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(len(examples))
            for start in range(0, len(order), 8):
                batch = [examples[i] for i in order[start : start + 8]]
                nlp.update([Example(nlp.make_doc(e.text), e.reference) for e in batch], sgd=optimizer)
            nlp.evaluate(examples)
        assert len(read) == len(set(read))
        assert set(read) == {tuple(token.text for token in example.reference) for example in examples}
        if place == "memory":
            read.clear()


def test_half_the_room(make_nlp, tmp_path):
    exact = make_nlp(all_layers=True)(TEXTS[0])
    whole, half = (
        make_nlp(all_layers=True, cache_size=MEGABYTES, store_dtype=dtype) for dtype in ("float32", "float16")
    )
    first, second = half(TEXTS[0]), half(TEXTS[0])
    np.testing.assert_array_equal(first._.elmo_layers, exact._.elmo_layers.astype(np.float16))
    np.testing.assert_array_equal(second._.elmo_layers, first._.elmo_layers)
    np.testing.assert_array_equal(second._.elmo, first._.elmo)
    assert first._.elmo_layers.dtype == np.float32
    whole(TEXTS[0])
    sizes = [nlp.get_pipe("elmo").shim.cache.statistics.bytes for nlp in (whole, half)]
    assert sizes[0] == 2 * sizes[1] == exact._.elmo_layers.nbytes


def test_what_a_user_writes_into_a_doc_stays_there(make_nlp):
    nlp = make_nlp(all_layers=True, cache_size=MEGABYTES)
    doc = nlp(TEXTS[0])
    expected = doc._.elmo_layers.copy(), doc._.elmo.copy()
    for _ in range(2):
        doc._.elmo_layers[:] = 0
        doc._.elmo[:] = 0
        doc = nlp(TEXTS[0])
        np.testing.assert_array_equal(doc._.elmo_layers, expected[0])
        np.testing.assert_array_equal(doc._.elmo, expected[1])


def test_a_long_text_is_not_copied(make_nlp, monkeypatch):
    """What the embedder gives is what the doc has."""
    nlp = make_nlp(all_layers=True)
    given = []
    embed = ElmoEmbedder.embed

    def noticed(self, sentences, **rest):
        given.extend(new := embed(self, sentences, **rest))
        return new

    monkeypatch.setattr(ElmoEmbedder, "embed", noticed)
    doc = nlp("word " * 300)
    assert np.shares_memory(doc._.elmo_layers, given[0])
    doc = make_nlp()("word " * 300)
    assert np.shares_memory(doc._.elmo, given[1])


def test_a_mix_that_changes_needs_no_new_layers(make_nlp, read):
    nlp = make_nlp(cache_size=MEGABYTES)
    before = nlp(TEXTS[0])._.elmo
    nlp.get_pipe("elmo").bilm.scalar_mix.gamma.data.mul_(2.0)
    np.testing.assert_allclose(nlp(TEXTS[0])._.elmo, 2 * before, rtol=1e-5)
    assert len(read) == 1


def test_changed_weights_are_noticed(make_nlp, tmp_path):
    nlp = make_nlp(cache_size=MEGABYTES, cache_dir=str(tmp_path))
    before = nlp(TEXTS[0])._.elmo
    for parameter in nlp.get_pipe("elmo").bilm.layers.parameters():
        parameter.data = parameter.data * 0.5
    assert np.abs(nlp(TEXTS[0])._.elmo - before).max() > 1e-3


def test_options_next_to_the_model_come_before_those_in_its_block(tiny_folder, tmp_path):
    block = {
        "@architectures": "spacy_elmo.ElmoModel.v1",
        "name": str(tiny_folder),
        "cache_size": 5,
        "cache_dir": "in the block",
        "store_dtype": "float16",
        "device": "cpu",
    }
    nlp = spacy.blank("en")
    shim = nlp.add_pipe("elmo", config={"model": block, "cache_size": 7}).shim
    assert shim.cache_options[:2] == (7, "in the block")
    assert (shim.cache.max_bytes, shim.cache.store_dtype, shim.device) == (7, "float16", "cpu")
    other = nlp.add_pipe("elmo", name="other", config={"model": {**block, "cache_dir": None}, "cache_size": 0})
    assert other.shim.cache is None


def test_by_default_nothing_is_kept(make_nlp):
    assert make_nlp().get_pipe("elmo").shim.cache is None


def test_a_folder_is_made_when_something_is_stored(make_nlp, tmp_path):
    nlp = make_nlp(cache_dir=str(tmp_path / "a" / "cache"))
    assert list(tmp_path.iterdir()) == []
    nlp("word")
    assert list((tmp_path / "a" / "cache").glob("*/*.layers"))


def test_a_copy_of_the_layer_has_the_options(make_nlp, tmp_path):
    model = make_nlp(cache_dir=str(tmp_path), cache_size=7).get_pipe("elmo").model.copy()
    assert bilm_of(model).cache_options[:2] == (7, str(tmp_path))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"cache_size": -1}, "cache_size: got -1"),
        ({"cache_dir": "x", "cache_dir_size": -1}, "cache_dir_size: got -1"),
        ({"cache_dir": ""}, "cache_dir: got an empty name"),
        ({"cache_size": 10, "store_dtype": "int8"}, "store_dtype: got 'int8'"),
        ({"cache_size": 10, "frozen": False}, "frozen = false with cache_size = 10.*expected frozen = true"),
        ({"cache_dir": "x", "frozen": False}, "frozen = false with cache_size = 0 and cache_dir = 'x'"),
    ],
)
def test_impossible_options_are_refused(make_nlp, config, message):
    with pytest.raises(ValueError, match=message):
        make_nlp(**config)


def test_a_file_is_no_cache_dir(make_nlp, tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(ValueError, match=r"cache_dir: got .*file', which is a file; expected a folder"):
        make_nlp(cache_dir=str(file))
    nlp = make_nlp(cache_dir=str(file / "below"))
    with pytest.raises(OSError, match=r"got .*file/below, which cannot be made .*expected a folder .*Name another"):
        nlp("a word")
    assert file.read_text() == "mine"


def test_the_bound_is_kept(make_nlp):
    nlp = make_nlp(cache_size=20_000)
    cache = nlp.get_pipe("elmo").shim.cache
    for _doc in nlp.pipe(f"text number {number} is here" for number in itertools.islice(itertools.count(), 100)):
        assert cache.statistics.bytes <= 20_000
    assert cache.statistics.sentences == 20_000 // (5 * LAYERS * WIDTH * 4)
