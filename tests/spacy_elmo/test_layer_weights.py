import numpy as np
import pytest
import spacy
import torch

from spacy_elmo.layer_weights import learnt_layer_weights
from spacy_elmo.scalar_mix import scalar_mixes
from tests.spacy_elmo.conftest import LAYERS, WIDTH
from tests.spacy_elmo.toy_tasks import add_consumer, make_examples, mixed_block, source_block, tok2vec_block

LISTENER = source_block("listener", "", width=WIDTH, layers=LAYERS)


def softmax(weights):
    return np.exp(weights) / np.exp(weights).sum()


def test_every_mix_of_a_pipeline_is_found(make_nlp):
    nlp = make_nlp()
    add_consumer(nlp, "ner", tok2vec_block(LISTENER, output=True))
    add_consumer(nlp, "tagger", tok2vec_block(LISTENER))
    add_consumer(nlp, "senter", mixed_block(LISTENER, layers=[2, 0]))
    nlp.initialize(lambda: make_examples(nlp))
    expected = {}
    generator = np.random.default_rng(0)
    for name in ("ner", "tagger", "senter"):
        for number, mix in enumerate(scalar_mixes(nlp.get_pipe(name).model)):
            weights = generator.normal(size=mix.get_param("W").shape).astype("f")
            mix.set_param("W", weights)
            mix.set_param("gamma", np.array([number + 2.5], "f"))
            expected[name, number] = softmax(weights)
    found = learnt_layer_weights(nlp)
    assert list(found) == ["elmo: doc._.elmo", "ner: input", "ner: output", "tagger", "senter"]
    bilm = nlp.get_pipe("elmo").bilm
    own = torch.softmax(bilm.scalar_mix.weights, 0).tolist()
    assert found["elmo: doc._.elmo"] == (pytest.approx(own), pytest.approx(bilm.scalar_mix.gamma.item()))
    np.testing.assert_allclose(found["ner: input"][0], expected["ner", 0], rtol=1e-5)
    np.testing.assert_allclose(found["ner: output"][0], expected["ner", 1], rtol=1e-5)
    assert (found["ner: input"][1], found["ner: output"][1]) == (2.5, 3.5)
    np.testing.assert_allclose(found["tagger"][0], expected["tagger", 0], rtol=1e-5)
    second, first = expected["senter", 0]
    assert found["senter"][0] == [pytest.approx(first), None, pytest.approx(second)]


def test_some_layers_only(tiny_folder):
    from hf_elmo import ElmoModel

    nlp = spacy.blank("en")
    component = nlp.add_pipe("elmo", config={"model": str(tiny_folder)})
    config = ElmoModel.from_pretrained(tiny_folder).config
    config.mix_layers = [1, 2]
    component.bilm = ElmoModel(config)
    assert learnt_layer_weights(nlp) == {"elmo: doc._.elmo": ([None, 0.5, 0.5], 1.0)}


def test_mixes_that_are_not_initialised_are_left_out(make_nlp):
    nlp = make_nlp()
    add_consumer(nlp, "tagger", mixed_block(LISTENER))
    assert list(learnt_layer_weights(nlp)) == ["elmo: doc._.elmo"]


def test_a_pipeline_without_elmo_has_none():
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("tagger")
    assert learnt_layer_weights(nlp) == {}
