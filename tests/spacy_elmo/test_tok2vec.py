import numpy as np
import pytest
import spacy
from spacy.util import registry
from thinc.api import Adam, Maxout, fix_random_seed, set_dropout_rate

from tests.spacy_elmo.conftest import LAYERS, WIDTH
from tests.spacy_elmo.toy_tasks import (
    add_consumer,
    initialize,
    make_examples,
    source_block,
    tok2vec_block,
    train,
)

EMBED = 16
NLP = spacy.blank("en")
TEXTS = ["The dog barks .", "", "word", "A  tree has bark"]


def build(folder, **options):
    model = registry.resolve(
        {"model": tok2vec_block(source_block("standalone", str(folder), width=WIDTH, layers=LAYERS), **options)}
    )["model"]
    docs = [NLP(text) for text in TEXTS]
    return model, docs


def has_maxout_before_encoder(model):
    return any(node.has_param("W") for node in model.layers[3].walk())


@pytest.mark.parametrize("output", [False, True])
@pytest.mark.parametrize(
    ("encoder", "width", "fitted"),
    [("cnn", 8, True), ("cnn", EMBED + WIDTH, False), ("lstm", 8, True), ("lstm", EMBED + WIDTH, False)],
)
def test_widths(tiny_folder, encoder, width, fitted, output):
    model, docs = build(tiny_folder, encoder=encoder, width=width, output=output)
    expected = width + (WIDTH if output else 0)
    assert model.get_dim("nO") == expected  # others read it before anything is initialised
    model.initialize(X=docs)
    assert [one.shape for one in model.predict(docs)] == [(len(doc), expected) for doc in docs]
    assert has_maxout_before_encoder(model) is fitted


def test_without_an_encoder_the_features_stand_side_by_side(tiny_folder):
    model, docs = build(tiny_folder, encoder="none", output=True)
    assert model.has_dim("nO") is None
    model.initialize(X=docs)
    source, embed, input_mix, *_ = model.layers
    assert model.get_dim("nO") == EMBED + 2 * WIDTH
    mixed = input_mix.predict(source.predict(docs))
    for got, features, elmo in zip(model.predict(docs), embed.predict(docs), mixed, strict=True):
        np.testing.assert_allclose(got, np.hstack([features, elmo, elmo]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("output", [False, True])
@pytest.mark.parametrize("encoder", ["cnn", "lstm", "bilstm", "none"])
def test_gradients_are_finite_differences(tiny_folder, encoder, output):
    """Along a random direction through all of thinc's parameters at once, of the mixes and of everything else."""
    fix_random_seed(0)
    model, docs = build(tiny_folder, encoder=encoder, width=16, output=output)
    model.initialize(X=docs)
    set_dropout_rate(model, 0.0)
    generator = np.random.default_rng(0)
    outputs, backprop = model(docs, is_train=True)
    targets = [generator.normal(size=one.shape).astype("f") for one in outputs]
    backprop([target.copy() for target in targets])
    parameters = [(node, name) for node in model.walk() for name in node.param_names if node.has_param(name)]
    mixes = [(node, name) for node, name in parameters if node.name == "scalar_mix"]
    assert len(mixes) == (4 if output else 2)
    # Small steps, since the maximum of maxout has kinks; smaller ones are lost in float32.
    for group, step in ((mixes, 1e-3), ([one for one in parameters if one not in mixes], 1e-4)):
        kept = [node.get_param(name).copy() for node, name in group]
        directions = [generator.normal(size=value.shape).astype("f") for value in kept]
        slope = sum(
            float((node.get_grad(name) * direction).sum())
            for (node, name), direction in zip(group, directions, strict=True)
            if node.has_grad(name)
        )

        def loss(step, group=group, kept=kept, directions=directions):
            for (node, name), value, direction in zip(group, kept, directions, strict=True):
                node.set_param(name, value + step * direction)
            return sum(
                float((one.astype("d") * target).sum())
                for one, target in zip(model.predict(docs), targets, strict=True)
            )

        difference = (loss(step) - loss(-step)) / (2 * step)
        loss(0.0)
        assert abs(slope) > 1e-2
        assert slope == pytest.approx(difference, rel=0.03, abs=0.02)


def test_the_gradient_of_the_layers_is_a_finite_difference(tiny_folder):
    fix_random_seed(0)
    model, docs = build(tiny_folder, output=True)
    docs = [doc for doc in docs if len(doc)]
    model.initialize(X=docs)
    source = model.layers[0]
    layers = [layer.copy() for layer in source.predict(docs)]
    generator = np.random.default_rng(0)
    sent = []
    source._func = lambda model, X, is_train: (layers, lambda d_layers: sent.extend(d_layers) or [])
    outputs, backprop = model(docs, is_train=True)
    targets = [generator.normal(size=one.shape).astype("f") for one in outputs]
    backprop([target.copy() for target in targets])
    directions = [generator.normal(size=layer.shape).astype("f") for layer in layers]
    kept = [layer.copy() for layer in layers]

    def loss(step):
        layers[:] = [value + step * direction for value, direction in zip(kept, directions, strict=True)]
        return sum(
            float((one.astype("d") * target).sum()) for one, target in zip(model.predict(docs), targets, strict=True)
        )

    difference = (loss(1e-3) - loss(-1e-3)) / 2e-3
    slope = sum(float((gradient * direction).sum()) for gradient, direction in zip(sent, directions, strict=True))
    assert abs(slope) > 0.1
    assert slope == pytest.approx(difference, rel=0.02, abs=0.02)


def test_an_encoder_that_takes_any_width_is_left_as_it_is(tiny_folder):
    from thinc.api import with_array

    from spacy_elmo.tok2vec import build_elmo_tok2vec

    model, docs = build(tiny_folder)
    source, embed, mix, _, _ = model.layers
    open_model = build_elmo_tok2vec(source, embed, mix, with_array(Maxout(nP=2)))
    assert open_model.has_dim("nO") is None
    open_model.layers[4].layers[0].set_dim("nO", 7)
    open_model.initialize(X=docs)
    assert not has_maxout_before_encoder(open_model)
    assert open_model.get_dim("nO") == 7


def test_a_saved_model_is_the_same(tiny_folder):
    model, docs = build(tiny_folder, output=True)
    model.initialize(X=docs)
    loaded, _ = build("nowhere", output=True)
    assert loaded.has_dim("nO") is None
    loaded.from_bytes(model.to_bytes())
    assert loaded.get_dim("nO") == model.get_dim("nO")
    for one, other in zip(loaded.predict(docs), model.predict(docs), strict=True):
        np.testing.assert_array_equal(one, other)
    copied = model.copy()  # without references, as thinc copies
    np.testing.assert_allclose(copied.predict(docs)[0], model.predict(docs)[0], atol=1e-6)


def test_static_vectors_as_features(make_nlp):
    nlp = make_nlp()
    generator = np.random.default_rng(0)
    for word in ("bark", "in", "the", "."):
        nlp.vocab.set_vector(word, generator.normal(size=6).astype("f"))
    block = tok2vec_block(source_block("listener", "", width=WIDTH, layers=LAYERS))
    block["embed"]["include_static_vectors"] = True
    add_consumer(nlp, "tagger", block)
    examples = make_examples(nlp)
    losses = train(nlp, examples, initialize(nlp, examples), steps=5)
    assert losses[-1]["tagger"] < losses[0]["tagger"]


def test_one_encoder_shared_by_spacys_own_listeners(make_nlp, tmp_path):
    """elmo → tok2vec with [x; ELMo] → components, and a copy of that tok2vec in one of them."""
    nlp = make_nlp()
    block = tok2vec_block(source_block("listener", "", width=WIDTH, layers=LAYERS), output=True)
    nlp.add_pipe("tok2vec", config={"model": block})
    shared = {"@architectures": "spacy.Tok2VecListener.v1", "width": 8 + WIDTH}
    for label in ("tagger", "ner"):
        add_consumer(nlp, label, shared)
    assert nlp.get_pipe("elmo").listening_components == ["tok2vec"]
    examples = make_examples(nlp)
    losses = train(nlp, examples, initialize(nlp, examples), steps=5)
    assert losses[-1]["tagger"] < losses[0]["tagger"]
    expected = nlp.get_pipe("tagger").model.predict([nlp("a word")])[0]
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    np.testing.assert_array_equal(loaded.get_pipe("tagger").model.predict([loaded("a word")])[0], expected)

    nlp.replace_listeners("tok2vec", "tagger", ["model.tok2vec"])
    np.testing.assert_allclose(nlp.get_pipe("tagger").model.predict([nlp("a word")])[0], expected, atol=1e-6)
    losses = train(nlp, examples, Adam(0.01), steps=3)
    assert losses[-1]["tagger"] < losses[0]["tagger"]


def test_elmo_alone_through_spacys_encoder(make_nlp):
    nlp = make_nlp()
    source = source_block("listener", "", width=WIDTH, layers=LAYERS)
    block = {
        "@architectures": "spacy.Tok2Vec.v2",
        "embed": {
            "@architectures": "spacy_elmo.MixedElmo.v1",
            "source": source,
            "mix": {"@layers": "spacy_elmo.ScalarMix.v1"},
        },
        "encode": tok2vec_block(source, width=WIDTH)["encode"],
    }
    add_consumer(nlp, "tagger", block)
    examples = make_examples(nlp)
    losses = train(nlp, examples, initialize(nlp, examples), steps=5)
    assert losses[-1]["tagger"] < losses[0]["tagger"]
