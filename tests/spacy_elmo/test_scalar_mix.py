import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from spacy.util import registry
from thinc.api import Adam, set_dropout_rate

from hf_elmo import ElmoConfig
from hf_elmo.scalar_mix import ScalarMix
from spacy_elmo.scalar_mix import build_scalar_mix, mix_weights, scalar_mixes

WIDTH, LAYERS = 5, 3

chosen_layers = st.one_of(st.none(), st.lists(st.integers(0, LAYERS - 1), min_size=1, max_size=LAYERS, unique=True))


def make_docs(lengths, seed=0, dtype=np.float32):
    generator = np.random.default_rng(seed)
    return [generator.normal(size=(length, LAYERS, WIDTH)).astype(dtype) for length in lengths]


def make_mix(docs, *, seed=1, **options):
    """An initialised mix with parameters that are not the untrained ones, in the docs' precision."""
    mix = build_scalar_mix(**{"dropout": 0.0, **options})
    mix.initialize(X=docs)
    generator = np.random.default_rng(seed)
    mix.set_param("W", generator.normal(size=mix.get_param("W").shape).astype(docs[0].dtype))
    mix.set_param("gamma", np.array([1.7], dtype=docs[0].dtype))
    return mix


def torch_twin(mix, **config):
    """hf_elmo's mix with the same parameters, in float64."""
    twin = ScalarMix(ElmoConfig(num_hidden_layers=LAYERS - 1, **config)).double()
    with torch.no_grad():
        twin.weights.copy_(torch.from_numpy(mix.get_param("W")))
        twin.gamma.copy_(torch.from_numpy(mix.get_param("gamma")))
    return twin


@given(
    lengths=st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any),
    layers=chosen_layers,
    norm=st.booleans(),
    seed=st.integers(0, 99),
)
def test_values_and_gradients_are_those_of_the_mix_in_torch(lengths, layers, norm, seed):
    docs = make_docs(lengths, seed, np.float64)
    mix = make_mix(docs, layers=layers, layer_norm=norm, l2=0.3, seed=seed)
    twin = torch_twin(mix, mix_layers=layers, mix_layer_norm="token" if norm else "none", mix_l2=0.3)
    inputs = [torch.from_numpy(doc).requires_grad_() for doc in docs]
    joined = torch.cat(inputs)  # (N, L, W)
    expected = twin([layer[None] for layer in joined.unbind(1)], torch.ones(1, len(joined), dtype=torch.bool))[0]
    mixed, backprop = mix(docs, is_train=True)
    assert [len(doc) for doc in mixed] == lengths
    np.testing.assert_allclose(np.concatenate(mixed), expected.detach().numpy(), rtol=1e-9, atol=1e-12)

    d_mixed = [np.random.default_rng(seed + 1).normal(size=doc.shape) for doc in mixed]
    d_docs = backprop(d_mixed)
    (expected * torch.from_numpy(np.concatenate(d_mixed))).sum().backward()
    twin.penalty().backward()
    for one, other in zip(d_docs, inputs, strict=True):
        np.testing.assert_allclose(one, other.grad.numpy(), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(mix.get_grad("W"), twin.weights.grad.numpy(), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(mix.get_grad("gamma"), twin.gamma.grad.numpy(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("norm", [False, True])
def test_gradients_are_finite_differences(norm):
    docs = make_docs([2, 3], dtype=np.float64)
    mix = make_mix(docs, layer_norm=norm, l2=0.2)
    targets = [np.random.default_rng(5).normal(size=(len(doc), WIDTH)) for doc in docs]

    def loss():
        weights = mix.get_param("W")
        fit = sum((one * other).sum() for one, other in zip(mix.predict(docs), targets, strict=True))
        return fit + 0.2 * (weights**2).sum()

    _, backprop = mix(docs, is_train=True)
    d_docs = backprop(targets)
    pairs = [(mix.get_param(name), mix.get_grad(name)) for name in ("W", "gamma")]
    for array, gradient in [*pairs, *zip(docs, d_docs, strict=True)]:
        assert np.abs(gradient).max() > 1e-3
        for index in np.ndindex(array.shape):
            kept, step = array[index], 1e-6
            array[index] = kept + step
            above = loss()
            array[index] = kept - step
            below = loss()
            array[index] = kept
            assert gradient[index] == pytest.approx((above - below) / (2 * step), abs=1e-6)


def test_an_untrained_mix_is_the_plain_average():
    docs = make_docs([4])
    mix = build_scalar_mix().initialize(X=docs)
    np.testing.assert_allclose(mix.predict(docs)[0], docs[0].mean(axis=1), rtol=1e-5)
    np.testing.assert_allclose(mix_weights(mix), [1 / 3] * 3, rtol=1e-6)
    assert mix.get_dim("nO") == WIDTH


@pytest.mark.parametrize("layer", range(LAYERS))
def test_one_layer_alone(layer):
    docs = make_docs([4])
    mix = build_scalar_mix(layers=[layer]).initialize(X=docs)
    np.testing.assert_array_equal(mix.predict(docs)[0], docs[0][:, layer])
    assert mix_weights(mix).tolist() == [1.0]


def test_dropout_is_the_mixs_own():
    docs = [np.ones((2000, LAYERS, WIDTH), np.float32)]
    mix = build_scalar_mix(dropout=0.3).initialize(X=docs)
    set_dropout_rate(mix, 0.9)  # as spaCy does with [training] dropout
    (mixed,), backprop = mix(docs, is_train=True)
    dropped = mixed == 0
    assert dropped.mean() == pytest.approx(0.3, abs=0.03)
    np.testing.assert_allclose(mixed[~dropped], 1 / 0.7, rtol=1e-5)
    (d_docs,) = backprop([np.ones_like(mixed)])
    np.testing.assert_array_equal(d_docs[:, 0] == 0, dropped)
    np.testing.assert_allclose(mix.predict(docs)[0], 1, rtol=1e-6)


def test_a_fixed_mix_does_not_learn():
    docs = make_docs([3])
    mix = make_mix(docs, trainable=False, l2=1.0)
    _, backprop = mix(docs, is_train=True)
    (d_docs,) = backprop([np.ones((3, WIDTH), np.float32)])
    assert mix.grad_names == ()
    assert d_docs.any()


def test_docs_without_tokens():
    docs = make_docs([0, 2, 0])
    mix = make_mix(docs)
    mixed, backprop = mix(docs, is_train=True)
    assert [doc.shape for doc in mixed] == [(0, WIDTH), (2, WIDTH), (0, WIDTH)]
    assert [doc.shape for doc in backprop(mixed)] == [doc.shape for doc in docs]
    assert mix.predict([]) == []


def test_averages_reach_the_parameters():
    docs = make_docs([3])
    mix = make_mix(docs)
    optimizer = Adam(0.1, use_averages=True)
    for _ in range(3):
        _, backprop = mix(docs, is_train=True)
        backprop([np.ones((3, WIDTH), np.float32)])
        mix.finish_update(optimizer)
    last = mix.get_param("W").copy()
    with mix.use_params(optimizer.averages):
        assert np.abs(mix.get_param("W") - last).max() > 1e-3
    np.testing.assert_array_equal(mix.get_param("W"), last)


def test_a_saved_mix_is_the_same():
    docs = make_docs([3])
    mix = make_mix(docs, layers=[2, 0])
    loaded = build_scalar_mix(layers=[2, 0]).from_bytes(mix.to_bytes())
    np.testing.assert_array_equal(loaded.predict(docs)[0], mix.predict(docs)[0])


def test_weights_of_anything_else_are_refused():
    mix = build_scalar_mix()
    with pytest.raises(ValueError, match="not initialised yet"):
        mix_weights(mix)
    other = registry.resolve({"x": {"@layers": "Linear.v1"}})["x"]
    with pytest.raises(ValueError, match="another layer"):
        mix_weights(other)
    assert scalar_mixes(other) == []
    assert scalar_mixes(mix) == [mix]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"layers": []}, "layers"),
        ({"layers": [1, 1]}, "layers"),
        ({"layers": [-1]}, "layers"),
        ({"dropout": 1.0}, "dropout"),
        ({"l2": -0.1}, "l2"),
        ({"layer_norm_eps": 0.0}, "layer_norm_eps"),
    ],
)
def test_impossible_options_are_refused(options, named):
    with pytest.raises(ValueError, match=named):
        build_scalar_mix(**options)


def test_a_layer_that_the_bilm_does_not_have_is_named():
    with pytest.raises(ValueError, match=r"layers: got \[0, 3\]; expected layers from 0 to 2"):
        build_scalar_mix(layers=[0, 3]).initialize(X=make_docs([2]))


@pytest.mark.parametrize("kind", ["@layers", "@architectures"])
def test_it_is_registered(kind):
    mix = registry.resolve({"mix": {kind: "spacy_elmo.ScalarMix.v1", "layers": [1, 2]}})["mix"]
    assert mix.attrs["layers"] == [1, 2]


def test_initialising_again_begins_anew():
    """As spaCy's own layers do: a second training, or fold, must not start where the first one ended."""
    mix = build_scalar_mix()
    layers = [np.random.default_rng(0).normal(size=(4, 3, 6)).astype("f")]
    mix.initialize(X=layers)
    mix.set_param("W", np.array([1.0, 2.0, 3.0], dtype="f"))
    mix.set_param("gamma", np.array([4.0], dtype="f"))
    mix.initialize(X=layers)
    np.testing.assert_array_equal(mix_weights(mix), np.full(3, 1 / 3, dtype="f"))
    assert mix.get_param("gamma").tolist() == [1.0]
