"""A trained pipeline gives a doc the same vectors and the same predictions, alone and in any batch."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as train_by_config

from spacy_elmo.config_template import build_config
from spacy_elmo.listener import ElmoListener
from tests.benchmarks.spacy_epoch import read_docs
from tests.spacy_elmo.conftest import LAYERS, WIDTH
from tests.spacy_elmo.toy_tasks import (
    add_consumer,
    initialize,
    make_examples,
    mixed_block,
    source_block,
    tok2vec_block,
    train,
)

TOLERANCE = 1e-5
# Not spaCy's TextCatReduce: it refuses a batch that holds a doc without tokens.
TASKS = ("tagger", "morphologizer", "ner", "spancat", "textcat_ensemble")


def train_on_the_toy_corpus(make_nlp, **config: object) -> Language:
    """Every kind of task, on mixes before and after an encoder, on a mix alone, and without a shared component."""
    nlp = make_nlp("sentencizer", **config)
    listener = source_block("listener", "", width=WIDTH, layers=LAYERS)
    standalone = source_block("standalone", nlp.get_pipe("elmo").source, width=WIDTH, layers=LAYERS)
    blocks = [
        tok2vec_block(listener, encoder="bilstm", output=True),
        mixed_block(listener, layer_norm=True),
        tok2vec_block(listener, output=True, layer_norm=True),
        tok2vec_block(listener),
        mixed_block(standalone),
    ]
    for task, block in zip(TASKS, blocks, strict=True):
        add_consumer(nlp, task, block)
    examples = make_examples(nlp, count=40)
    optimizer = initialize(nlp, examples)
    optimizer.learn_rate = 0.02
    train(nlp, examples, optimizer, steps=20, annotates=["sentencizer"])
    return nlp


@pytest.fixture(scope="module")
def plain(make_nlp) -> Language:
    return train_on_the_toy_corpus(make_nlp)


@pytest.fixture(scope="module")
def cached(make_nlp, plain, tmp_path_factory) -> Language:
    """The same pipeline with a memory of sentences too small for all of them, and a folder."""
    folder = tmp_path_factory.mktemp("trained")
    plain.to_disk(folder / "nlp")
    options = {"components.elmo.cache_size": 20_000, "components.elmo.cache_dir": str(folder / "cache")}
    return spacy.load(folder / "nlp", config=options)


def predicted(doc: Doc) -> list[object]:
    """All decisions of all components."""
    return [
        *((token.tag_, token.pos_, str(token.morph), token.ent_iob_, token.ent_type_) for token in doc),
        *((span.start, span.end, span.label_) for span in doc.spans["sc"]),
        [label for label, score in doc.cats.items() if score == max(doc.cats.values())],
    ]


def features(nlp: Language, docs: list[Doc]) -> Iterator[list[np.ndarray]]:
    """Per doc with tokens what each component's `tok2vec` gives, with the layers that the doc carries."""
    read = [doc for doc in docs if len(doc)]  # no component shows its model docs without any
    given = []
    for name in TASKS if read else ():
        rows = nlp.get_pipe(name).model.get_ref("tok2vec").predict(read)
        every = np.concatenate(rows) if isinstance(rows, list) else rows  # a parser's are joined already
        given.append(np.split(every, np.cumsum([len(doc) for doc in read])[:-1]))
    return map(list, zip(*given, strict=True))


def assert_same(nlp: Language, texts: list[str], docs: list[Doc]) -> None:
    assert [doc.text for doc in docs] == texts
    inside = features(nlp, docs)
    for text, doc in zip(texts, docs, strict=True):
        alone = nlp(text)
        np.testing.assert_allclose(doc._.elmo, alone._.elmo, rtol=0, atol=TOLERANCE)
        for alone_inside in features(nlp, [alone]):
            for one, other in zip(next(inside), alone_inside, strict=True):
                np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCE)
        if len(doc):  # spaCy's textcat scores a doc without tokens only where another has some
            assert doc.cats == pytest.approx(alone.cats, abs=TOLERANCE)
            assert predicted(doc) == predicted(alone)


corpus = [example.text for example in make_examples(spacy.blank("en"), count=30, seed=9)]
words = st.one_of(
    st.sampled_from([word for text in corpus for word in text.split()]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6),
    st.sampled_from([".", "?", "\n", "  "]),
)
texts_of_any_length = st.one_of(
    st.sampled_from(["", " ", "\n\n", *corpus]),
    st.lists(words, max_size=40).map(" ".join),
    st.lists(st.sampled_from(corpus), max_size=6).map(" ".join),
)


@settings(max_examples=20)
@given(
    texts=st.lists(texts_of_any_length, min_size=1, max_size=12),
    batch_size=st.integers(1, 14),
    max_words_per_batch=st.sampled_from([1, 7, 30, 4096]),
    keep=st.booleans(),
)
def test_alone_and_in_any_batch(plain, cached, texts, batch_size, max_words_per_batch, keep):
    nlp = cached if keep else plain
    nlp.get_pipe("elmo").max_words_per_batch = max_words_per_batch
    assert_same(nlp, texts, list(nlp.pipe(texts, batch_size=batch_size)))


def test_the_pipeline_has_learnt(plain):
    """Or it would predict the same whatever it is given."""
    texts = [example.text for example in make_examples(plain, count=30, seed=9)]
    docs = list(plain.pipe(texts))
    assert len({tuple(token.tag_ for token in doc) for doc in docs}) > 1
    assert sum(len(doc.ents) == 1 for doc in docs) > 20
    assert len({doc.cats["VERBAL"] > 0.5 for doc in docs}) == 2
    listening = {name for name in TASKS for node in plain.get_pipe(name).model.walk() if isinstance(node, ElmoListener)}
    assert listening == set(TASKS) - {"textcat_ensemble"}


@pytest.mark.slow
@pytest.mark.parametrize("output_mix", [False, True])
def test_the_shipped_model_on_news(shared_dir: Path, tmp_path: Path, output_mix: bool):
    """NER on the model of the package, trained by spaCy's loop on sentences of CoNLL-2003."""
    folder = shared_dir / "data" / "tasks" / "conll03"
    for name, file, sentences in (("train", "eng.train", 400), ("dev", "eng.testa", 150)):
        docs = list(read_docs(folder / file, sentences_per_doc=3, sentences=sentences))
        DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / f"{name}.spacy")
    config = build_config(pipeline=["ner"], output_mix=output_mix)
    config["paths"].update(train=str(tmp_path / "train.spacy"), dev=str(tmp_path / "dev.spacy"))
    config["training"].update(max_steps=120, eval_frequency=120)
    nlp = init_nlp(config)
    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        train_by_config(nlp, stdout=log, stderr=log)
    texts = [doc.text for doc in docs]
    expected = [nlp(text) for text in texts]
    assert sum(len(doc.ents) for doc in expected) > 50
    tok2vec = nlp.get_pipe("ner").model.get_ref("tok2vec")  # one array of all docs' rows
    rows = np.concatenate([tok2vec.predict([doc]) for doc in expected])
    for batch_size in (1, 3, 16, 1000):
        found = list(nlp.pipe(texts, batch_size=batch_size))
        np.testing.assert_allclose(tok2vec.predict(found), rows, rtol=0, atol=TOLERANCE)
        for doc, alone in zip(found, expected, strict=True):
            np.testing.assert_allclose(doc._.elmo, alone._.elmo, rtol=0, atol=TOLERANCE)
            assert [(ent.start, ent.end, ent.label_) for ent in doc.ents] == [
                (ent.start, ent.end, ent.label_) for ent in alone.ents
            ]
