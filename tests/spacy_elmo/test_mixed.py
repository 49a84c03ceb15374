import numpy as np
import spacy
from spacy.util import registry

from tests.spacy_elmo.conftest import LAYERS, WIDTH
from tests.spacy_elmo.toy_tasks import mixed_block, source_block


def resolve(block):
    return registry.resolve({"model": block})["model"]


def test_it_is_the_mix_of_the_sources_layers(tiny_folder):
    source = source_block("standalone", str(tiny_folder), width=WIDTH, layers=LAYERS)
    model = resolve(mixed_block(source, layers=[1, 2]))
    assert model.get_dim("nO") == WIDTH  # before anything is initialised
    docs = [spacy.blank("en")(text) for text in ["The dog barks", "", "word"]]
    model.initialize(X=docs)
    for mixed, layers in zip(model.predict(docs), model.layers[0].predict(docs), strict=True):
        np.testing.assert_allclose(mixed, layers[:, 1:].mean(axis=1), rtol=1e-5, atol=1e-7)


def test_a_width_that_is_not_known_yet_is_set_later(tiny_folder):
    model = resolve(mixed_block({"@architectures": "spacy_elmo.ElmoModel.v1", "name": "nowhere"}))
    assert model.has_dim("nO") is None
    model.layers[0].shims[0].name = str(tiny_folder)
    model.initialize(X=[spacy.blank("en")("a word")])
    assert model.get_dim("nO") == WIDTH
