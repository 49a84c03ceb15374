import numpy as np
import pytest
import spacy
import torch
from spacy.util import registry
from thinc.api import Linear

from hf_elmo import ElmoModel
from hf_elmo.embedder import ElmoEmbedder
from spacy_elmo.bilm import BiLM
from spacy_elmo.elmo_source import bilm_of, build_elmo_model
from tests.spacy_elmo.conftest import LAYERS, WIDTH

NLP = spacy.blank("en")
NLP.add_pipe("sentencizer")
TOK2VEC = {"@architectures": "spacy.Tok2VecListener.v1", "width": 4}
TEXTS = ["The dog  barks . A bark !", "", "word"]


@pytest.fixture
def docs():
    return [NLP(text) for text in TEXTS]


@pytest.fixture
def model(tiny_folder):
    return build_elmo_model(str(tiny_folder))


def test_layers_are_the_embedders(model, docs, tiny_folder):
    layers, backprop = model(docs, is_train=True)
    assert backprop(layers) == []
    assert [one.shape for one in layers] == [(len(doc), LAYERS, WIDTH) for doc in docs]
    embedder = ElmoEmbedder(ElmoModel.from_pretrained(tiny_folder))
    for doc, computed in zip(docs, layers, strict=True):
        for sentence in doc.sents:
            words = [token for token in sentence if not token.is_space]
            (expected,) = embedder.embed([[token.text for token in words]], layers="all")
            np.testing.assert_allclose(computed[[token.i for token in words]].swapaxes(0, 1), expected, atol=2e-6)
        assert not computed[[token.i for token in doc if token.is_space]].any()


def test_sizes_are_known_before_the_weights_are_read(model):
    assert (model.get_dim("nO"), model.get_dim("nL")) == (WIDTH, LAYERS)
    assert bilm_of(model)._model is None


def test_the_shipped_model_is_the_default():
    model = registry.resolve({"model": {"@architectures": "spacy_elmo.ElmoModel.v1"}})["model"]
    assert model.get_dim("nO") == 256
    assert model.get_dim("nL") == 3


@pytest.mark.parametrize("name", ["nowhere/to-be-found", "a folder/that is/not there"])
def test_a_model_that_is_not_here_has_no_sizes_yet(name, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    model = build_elmo_model(name)
    assert model.has_dim("nO") is None
    with pytest.raises(OSError, match=name):
        model.initialize()


def test_initialising_sets_the_sizes(model, tiny_folder):
    late = build_elmo_model("nowhere")
    bilm_of(late).name = str(tiny_folder)
    late.initialize()
    assert (late.get_dim("nO"), late.get_dim("nL")) == (WIDTH, LAYERS)


def test_a_copy_is_independent(model, docs):
    before = model.predict(docs)[0].copy()
    copied = model.copy()
    with torch.no_grad():
        for parameter in bilm_of(model).model.parameters():
            parameter.zero_()
    np.testing.assert_array_equal(copied.predict(docs)[0], before)
    assert bilm_of(copied).id != bilm_of(model).id


def test_bytes_hold_the_weights(model, docs):
    fresh = build_elmo_model("nowhere").from_bytes(model.to_bytes())
    np.testing.assert_array_equal(fresh.predict(docs)[0], model.predict(docs)[0])
    assert fresh.get_dim("nO") == WIDTH


def test_averages_are_exchanged_and_given_back(model, docs):
    bilm = bilm_of(model)
    before = model.predict(docs)[0].copy()
    name, parameter = next(iter(bilm.model.named_parameters()))
    averages = {(bilm.id, name): np.zeros(parameter.shape, np.float32), (bilm.id + 1, name): np.ones(1)}
    with model.use_params(averages):
        assert not parameter.any()
        assert np.abs(model.predict(docs)[0] - before).max() > 1e-3
    np.testing.assert_array_equal(model.predict(docs)[0], before)
    with model.use_params({}):
        np.testing.assert_array_equal(model.predict(docs)[0], before)


def test_a_frozen_bilm_takes_no_step(model):
    bilm = bilm_of(model)
    before = {name: value.clone() for name, value in bilm.model.state_dict().items()}
    model.finish_update(lambda *args, **kwargs: pytest.fail("the optimizer was called"))
    BiLM(name="nowhere").finish_update(lambda *args, **kwargs: pytest.fail("the optimizer was called"))
    assert all(torch.equal(value, before[name]) for name, value in bilm.model.state_dict().items())


def test_another_architecture_is_refused():
    with pytest.raises(ValueError, match=r'got the architecture of a "linear"; expected .*ElmoModel\.v1'):
        bilm_of(Linear())
    with pytest.raises(ValueError, match=r"ElmoModel\.v1"):
        spacy.blank("en").add_pipe("elmo", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": TOK2VEC}})


def test_an_impossible_bound_is_refused():
    with pytest.raises(ValueError, match="max_words_per_batch: got 0"):
        build_elmo_model(max_words_per_batch=0)


def test_bytes_of_something_else_are_refused(model):
    import srsly

    with pytest.raises(ValueError, match=r"got bytes that hold \['weights'\]; expected config\.json"):
        bilm_of(model).from_bytes(srsly.msgpack_dumps({"weights": b""}))
