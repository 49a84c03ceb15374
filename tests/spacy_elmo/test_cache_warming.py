import pytest
import spacy
from spacy.tokens import Doc, DocBin
from spacy.training import Corpus
from spacy.training.initialize import init_nlp
from spacy.util import load_config, load_model_from_config

from hf_elmo.embedder import ElmoEmbedder
from spacy_elmo.cache_warming import CacheWarming, frozen_bilms
from spacy_elmo.config_template import build_config, commented
from tests.spacy_elmo.conftest import LAYERS, WIDTH
from tests.spacy_elmo.toy_tasks import add_consumer, make_examples, mixed_block, source_block


@pytest.fixture
def corpus(tmp_path):
    sentences = [example.reference for example in make_examples(spacy.blank("en"), count=40)]
    docs = [Doc.from_docs(pair) for pair in zip(sentences[::2], sentences[1::2], strict=True)]
    DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / "corpus.spacy")
    return tmp_path / "corpus.spacy"


@pytest.fixture
def config(tmp_path, tiny_folder, corpus):
    built = build_config(pipeline=["tagger", "ner"], model=str(tiny_folder))
    built["paths"].update(train=str(corpus), dev=str(corpus), elmo_cache=str(tmp_path / "cache"))
    (tmp_path / "config.cfg").write_text(commented(built), encoding="utf-8")
    return tmp_path / "config.cfg"


def warm(pipeline, corpus, cache, **options):
    warming = CacheWarming(pipeline, cache_dir=cache, **options)
    *_, last = warming.run(warming.documents(corpus))
    return last


def nothing_is_computed(monkeypatch):
    embed = ElmoEmbedder.embed

    def refuse(self, sentences, **rest):
        sentences = list(sentences)
        assert sentences == []
        return embed(self, sentences, **rest)

    monkeypatch.setattr(ElmoEmbedder, "embed", refuse)


def test_training_finds_everything(config, corpus, tmp_path, monkeypatch):
    warmed = warm(config, corpus, tmp_path / "cache")
    assert warmed.docs == 20
    assert warmed.words == sum(map(len, DocBin().from_disk(corpus).get_docs(spacy.blank("en").vocab)))
    nothing_is_computed(monkeypatch)
    nlp = init_nlp(load_config(config))
    examples = list(Corpus(corpus)(nlp))
    optimizer = nlp.resume_training()
    for _ in range(2):
        for example in examples:
            example.predicted = nlp.make_doc(example.text)
        nlp.update(examples, sgd=optimizer, annotates=["sentencizer"])
    nlp.evaluate(examples)
    statistics = nlp.get_pipe("elmo").shim.cache.statistics
    assert statistics.misses == 0
    assert statistics.hits >= 3 * 40


def test_again_everything_is_there(config, corpus, tmp_path):
    (first,) = warm(config, corpus, tmp_path / "cache").statistics
    (again,) = warm(config, corpus, tmp_path / "cache").statistics
    assert (first.hits, again.misses) == (0, 0)
    assert first.misses == again.hits == 40


def test_a_saved_pipeline_shows_docs_as_it_will(config, corpus, tmp_path, monkeypatch):
    nlp = load_model_from_config(load_config(config))
    nlp.initialize(lambda: make_examples(nlp))
    nlp.to_disk(tmp_path / "saved")
    warm(tmp_path / "saved", corpus, tmp_path / "cache")
    nothing_is_computed(monkeypatch)
    loaded = spacy.load(tmp_path / "saved", config={"components.elmo.cache_dir": str(tmp_path / "cache")})
    texts = [doc.text for doc in DocBin().from_disk(corpus).get_docs(loaded.vocab)]
    assert len(list(loaded.pipe(texts))) == 20


def test_a_standalone_source_is_warmed_too(tiny_folder, corpus, tmp_path):
    nlp = spacy.blank("en")
    add_consumer(nlp, "tagger", mixed_block(source_block("standalone", str(tiny_folder), width=WIDTH, layers=LAYERS)))
    assert list(frozen_bilms(nlp)) == ["tagger"]
    nlp.config.to_disk(tmp_path / "standalone.cfg")
    (statistics,) = warm(tmp_path / "standalone.cfg", corpus, tmp_path / "cache").statistics
    assert statistics.misses == 20  # no boundaries: whole docs


def test_the_dtype_is_trainings(config, corpus, tmp_path):
    config.write_text(config.read_text().replace('\nstore_dtype = "float32"', '\nstore_dtype = "float16"', 1))
    warming = CacheWarming(config, cache_dir=tmp_path / "cache")
    (bilm,) = warming.bilms.values()
    assert bilm.cache.store_dtype == "float16"
    (bilm,) = CacheWarming(config, cache_dir=tmp_path, store_dtype="float32", cache_dir_size=7).bilms.values()
    assert (bilm.cache.store_dtype, bilm.cache.max_folder_bytes) == ("float32", 7)


def test_what_cannot_be_warmed_is_named(tmp_path, tiny_folder, config):
    nlp = spacy.blank("en")
    nlp.config.to_disk(tmp_path / "blank.cfg")
    with pytest.raises(ValueError, match=r"blank\.cfg: got the components none; expected one with a frozen"):
        CacheWarming(tmp_path / "blank.cfg", cache_dir=tmp_path)
    tuned = build_config(pipeline=["ner"], model=str(tiny_folder), fine_tune=True)
    tuned.to_disk(tmp_path / "tuned.cfg")
    with pytest.raises(ValueError, match="expected one with a frozen"):
        CacheWarming(tmp_path / "tuned.cfg", cache_dir=tmp_path)
    with pytest.raises(OSError, match="nowhere"):
        CacheWarming(tmp_path / "nowhere", cache_dir=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.cfg: got no such file; expected a configuration"):
        CacheWarming(tmp_path / "nowhere.cfg", cache_dir=tmp_path)
    with pytest.raises(FileNotFoundError, match="got no such file"):
        list(CacheWarming(config, cache_dir=tmp_path).documents(tmp_path / "none.spacy"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "train.conll").write_text("A O\n")
    for data in ("empty", "train.conll"):
        with pytest.raises(ValueError, match=f"{data}: got no docs; expected a .spacy file, or a folder of these"):
            list(CacheWarming(config, cache_dir=tmp_path / "cache").documents(tmp_path / data))
