import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from thinc.api import Adam

from spacy_elmo.bilstm_encoder import build_bilstm_encoder

WIDTH = 6


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def plain_bilstm(model, doc: np.ndarray) -> np.ndarray:
    """The textbook's LSTM, token by token, with PyTorch's order of the gates: input, forget, cell, output."""
    parameters = {name: value.double().numpy() for name, value in model.layers[0].shims[0]._model.state_dict().items()}
    depth = sum(name.startswith("lstm.weight_ih") for name in parameters) // 2
    x = doc.astype("d")
    for layer in range(depth):
        directions = []
        for suffix, order in (("", range(len(x))), ("_reverse", range(len(x) - 1, -1, -1))):
            w_ih, w_hh, b_ih, b_hh = (
                parameters[f"lstm.{name}_l{layer}{suffix}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            h = c = np.zeros(WIDTH // 2)
            outputs = np.zeros((len(x), WIDTH // 2))
            for t in order:
                i, f, g, o = np.split(w_ih @ x[t] + b_ih + w_hh @ h + b_hh, 4)
                c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                h = sigmoid(o) * np.tanh(c)
                outputs[t] = h
            directions.append(outputs)
        x = np.hstack(directions)
    return x


def docs_of(lengths, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.normal(size=(length, WIDTH)).astype("f") for length in lengths]


def build(depth=2, **options):
    torch.manual_seed(0)
    return build_bilstm_encoder(width=WIDTH, depth=depth, **options).initialize()


@given(lengths=st.lists(st.integers(0, 9), max_size=6), depth=st.integers(1, 3), seed=st.integers(0, 99))
def test_each_doc_is_read_by_itself(lengths, depth, seed):
    model, docs = build(depth=depth), docs_of(lengths, seed)
    outputs = model.predict(docs)
    assert len(outputs) == len(docs)
    for doc, output in zip(docs, outputs, strict=True):
        np.testing.assert_allclose(output, plain_bilstm(model, doc), rtol=0, atol=2e-6)


@pytest.mark.parametrize("lengths", [[4, 0, 1, 7], [0, 0], [], [3]])
def test_the_inputs_gradient_is_a_finite_difference(lengths):
    model, docs = build(), docs_of(lengths)
    outputs, backprop = model(docs, is_train=True)
    generator = np.random.default_rng(1)
    targets = [generator.normal(size=one.shape).astype("f") for one in outputs]
    gradients = backprop(targets)
    assert [one.shape for one in gradients] == [doc.shape for doc in docs]
    directions = [generator.normal(size=doc.shape) for doc in docs]

    def loss(step):
        moved = [doc + step * direction for doc, direction in zip(docs, directions, strict=True)]
        outputs = [plain_bilstm(model, doc) for doc in moved]
        return sum(float((one * target).sum()) for one, target in zip(outputs, targets, strict=True))

    slope = sum(float((one * direction).sum()) for one, direction in zip(gradients, directions, strict=True))
    assert slope == pytest.approx((loss(1e-5) - loss(-1e-5)) / 2e-5, rel=1e-4, abs=1e-5)


def test_it_learns():
    model, docs = build(), docs_of([5, 1, 8])
    optimizer = Adam(0.02)
    losses = []
    for _ in range(40):
        outputs, backprop = model(docs, is_train=True)
        losses.append(sum(float(((one - 0.5) ** 2).sum()) for one in outputs))
        backprop([2 * (one - 0.5) for one in outputs])
        model.finish_update(optimizer)
    assert losses[-1] < 0.3 * losses[0]


def test_a_saved_encoder_and_a_copy_are_the_same():
    model, docs = build(), docs_of([3, 2])
    torch.manual_seed(7)
    other = build_bilstm_encoder(width=WIDTH, depth=2).initialize()
    assert not np.allclose(other.predict(docs)[0], model.predict(docs)[0])
    for same in (other.from_bytes(model.to_bytes()), model.copy(), copy.deepcopy(model)):
        np.testing.assert_array_equal(same.predict(docs)[0], model.predict(docs)[0])


@pytest.mark.parametrize(
    "options", [{"width": 5}, {"width": 0}, {"width": 4, "depth": 0}, {"width": 4, "dropout": 1.0}]
)
def test_impossible_options_are_refused(options):
    with pytest.raises(ValueError, match=r"BiLSTMEncoder: got width = .*expected an even width"):
        build_bilstm_encoder(**options)
