import copy
import pickle

import numpy as np
import pytest
import torch
from spacy import ty
from spacy.training import Example
from thinc.api import Adam

from spacy_elmo.component import ElmoComponent
from spacy_elmo.handed_layers import handed_to
from tests.spacy_elmo.conftest import LAYERS, WIDTH
from tests.spacy_elmo.test_listener import LISTENER, listener_of
from tests.spacy_elmo.toy_tasks import add_consumer, initialize, make_examples, mixed_block, tok2vec_block, train


def shared_nlp(make_nlp, *labels, block=mixed_block, **config):
    nlp = make_nlp(**config)
    for label in labels:
        add_consumer(nlp, label, block(LISTENER))
    return nlp


def state_of(nlp):
    return {name: value.clone() for name, value in nlp.get_pipe("elmo").bilm.state_dict().items()}


def accuracy(nlp, examples):
    return nlp.evaluate(examples)["tag_acc"]


def test_spacy_sees_its_protocols(make_nlp):
    component = make_nlp().get_pipe("elmo")
    assert isinstance(component, ty.ListenedToComponent)
    assert isinstance(component, ty.TrainableComponent)
    assert isinstance(component, ty.InitializableComponent)


def test_a_frozen_bilm_keeps_its_bits_while_components_learn(make_nlp):
    nlp = shared_nlp(make_nlp, "tagger", "ner", block=tok2vec_block)
    assert not nlp.get_pipe("elmo").is_trainable
    examples = make_examples(nlp)
    optimizer = initialize(nlp, examples)
    optimizer.learn_rate = 0.01
    before = state_of(nlp)
    losses = train(nlp, examples, optimizer, steps=15)
    assert set(losses[0]) == {"tagger", "ner"}  # no column for what does not learn
    assert losses[-1]["tagger"] < 0.5 * losses[0]["tagger"]
    assert losses[-1]["ner"] < 0.5 * losses[0]["ner"]
    assert all(torch.equal(value, before[name]) for name, value in state_of(nlp).items())
    assert not any(key[1] in before for key in optimizer.mom1)


def test_a_tagger_learns_more_than_it_could_from_zeros(make_nlp, monkeypatch):
    def trained(zeros):
        nlp = shared_nlp(make_nlp, "tagger")
        elmo = nlp.get_pipe("elmo")
        if zeros:
            monkeypatch.setattr(
                ElmoComponent,
                "layers_of",
                lambda self, docs: [np.zeros((len(doc), LAYERS, WIDTH), "f") for doc in docs],
            )
        examples, unseen = make_examples(nlp, count=40), make_examples(nlp, count=40, seed=1)
        optimizer = initialize(nlp, examples)
        optimizer.learn_rate = 0.03
        train(nlp, examples, optimizer, steps=60)
        monkeypatch.undo()
        assert elmo.known_listeners
        return accuracy(nlp, unseen)

    assert trained(zeros=False) > trained(zeros=True) + 0.2


def test_training_gives_the_layers_of_prediction(make_nlp):
    nlp = shared_nlp(make_nlp, "tagger")
    nlp.initialize(lambda: make_examples(nlp))
    elmo, doc = nlp.get_pipe("elmo"), nlp.make_doc("The dog  barks .")
    elmo.update([Example(doc, doc)])
    predicted = nlp(doc.text)
    np.testing.assert_allclose(handed_to(doc, "elmo").layers, handed_to(predicted, "elmo").layers, atol=2e-6)
    assert doc._.elmo is None  # annotations are for prediction


def test_without_listeners_nothing_is_computed(make_nlp, monkeypatch):
    nlp = make_nlp()
    doc = nlp("a word")
    assert handed_to(doc, "elmo") is None
    monkeypatch.setattr(ElmoComponent, "layers_of", lambda self, docs: pytest.fail("the biLM ran"))
    assert nlp.update([Example(nlp.make_doc("a word"), doc)], sgd=Adam()) == {}


def test_all_layers_are_kept_only_on_request(make_nlp):
    nlp = shared_nlp(make_nlp, "tagger")
    nlp.initialize(lambda: make_examples(nlp))
    assert nlp("a word")._.elmo_layers is None
    layered = shared_nlp(make_nlp, "tagger", all_layers=True)
    layered.initialize(lambda: make_examples(nlp))
    np.testing.assert_allclose(layered("a word")._.elmo_layers, handed_to(nlp("a word"), "elmo").layers, atol=2e-6)
    np.testing.assert_allclose(nlp("a word")._.elmo, make_nlp()("a word")._.elmo, atol=2e-6)


def test_the_map_of_listeners(make_nlp):
    nlp = shared_nlp(make_nlp, "tagger", "ner")
    elmo = nlp.get_pipe("elmo")
    tagger, ner = listener_of(nlp, "tagger"), listener_of(nlp, "ner")
    assert elmo.listening_components == ["tagger", "ner"]
    assert elmo.listeners == [tagger, ner]
    elmo.add_listener(tagger, "tagger")
    assert elmo.listeners == [tagger, ner]
    assert elmo.remove_listener(tagger, "tagger")
    assert not elmo.remove_listener(tagger, "tagger")
    assert elmo.listening_components == ["ner"]
    assert elmo.known_listeners == [ner]
    assert tagger.upstream is None
    elmo.find_listeners(lambda doc: doc)  # a component without a model
    elmo.find_listeners(nlp.get_pipe("tagger"))
    assert elmo.listeners == [ner, tagger]


def test_a_component_that_was_disabled_while_spacy_linked_gets_its_layers(make_nlp):
    """`spacy train` does so with the components that it freezes or resumes."""
    nlp = shared_nlp(make_nlp, "tagger", "senter")
    examples = make_examples(nlp)
    nlp.initialize(lambda: examples)
    with nlp.select_pipes(disable=["tagger", "senter"]):
        nlp.initialize(lambda: examples)
    assert nlp.get_pipe("elmo").listening_components == []
    assert handed_to(nlp("a word"), "elmo") is not None
    losses = train(nlp, examples, nlp.resume_training(), steps=3)
    assert losses[-1]["tagger"] < losses[0]["tagger"]


def test_a_removed_component_is_forgotten(make_nlp):
    nlp = shared_nlp(make_nlp, "tagger")
    nlp.remove_pipe("tagger")
    import gc

    gc.collect()
    assert nlp.get_pipe("elmo").known_listeners == []
    assert handed_to(nlp("a word"), "elmo") is None


def test_docs_without_tokens_are_no_matter(make_nlp):
    nlp = shared_nlp(make_nlp, "tagger")
    examples = make_examples(nlp)
    optimizer = initialize(nlp, examples)
    empty = nlp.make_doc("")
    nlp.update([Example(empty, empty.copy())], sgd=optimizer)
    nlp.update([Example(empty, empty.copy()), *examples], sgd=optimizer)
    assert len(list(nlp.pipe(["", "a word", ""]))) == 3


def test_averages_do_not_break(make_nlp, tmp_path):
    nlp = shared_nlp(make_nlp, "tagger", block=tok2vec_block)
    examples = make_examples(nlp)
    initialize(nlp, examples)
    optimizer = Adam(0.01, use_averages=True)
    train(nlp, examples, optimizer, steps=4)
    last = nlp.get_pipe("tagger").model.predict([nlp("a word")])[0].copy()
    with nlp.use_params(optimizer.averages):
        averaged = nlp.get_pipe("tagger").model.predict([nlp("a word")])[0]
        nlp.to_disk(tmp_path)
        assert np.abs(averaged - last).max() > 1e-4
    np.testing.assert_array_equal(nlp.get_pipe("tagger").model.predict([nlp("a word")])[0], last)


@pytest.mark.parametrize(
    "make_copy", [lambda c: pickle.loads(pickle.dumps(c)), copy.deepcopy], ids=["pickle", "deepcopy"]
)
def test_a_copied_component_works(make_nlp, make_copy):
    nlp = shared_nlp(make_nlp, "tagger", frozen=False)
    examples = make_examples(nlp)
    train(nlp, examples, initialize(nlp, examples), steps=2)
    elmo = nlp.get_pipe("elmo")
    copied = make_copy(elmo)
    doc = nlp.make_doc("a word")
    np.testing.assert_allclose(copied.layers_of([doc])[0], elmo.layers_of([doc])[0], atol=1e-6)
    assert copied.listening_components == ["tagger"]
    assert len(copied.known_listeners) == 1
