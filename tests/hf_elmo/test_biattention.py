"""The biattentive network against its equations, one sentence at a time, without padding."""

import numpy as np
import pytest
import torch

from hf_elmo.biattention import BiattentiveEncoder, maxout_classifier
from hf_elmo.bidirectional_rnn import BidirectionalRNN
from hf_elmo.task_model import ElmoVectors
from tests.hf_elmo.models import randomise


def alone(rnn: BidirectionalRNN, x: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return rnn(torch.from_numpy(x)[None], torch.ones(1, len(x), dtype=torch.bool))[0].numpy()


def softmax(x: np.ndarray) -> np.ndarray:
    shares = np.exp(x - x.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def encoded(network: BiattentiveEncoder, x: np.ndarray, beside: np.ndarray | None) -> np.ndarray:
    weight, bias = network.projection.weight.detach().numpy(), network.projection.bias.detach().numpy()
    x = alone(network.encoder, np.maximum(x @ weight.T + bias, 0))
    return x if beside is None else np.concatenate([x, beside], axis=1)


def pooled(network: BiattentiveEncoder, number: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    integrator = network.integrators[number]
    context = softmax(x @ y.T) @ y
    x = alone(integrator.rnn, np.concatenate([x, x - context, x * context], axis=1))
    shares = softmax(x @ integrator.attention.weight.detach().numpy()[0])
    return np.concatenate([x.max(0), x.mean(0), x.min(0), shares @ x])


@pytest.mark.parametrize("beside_size", [0, 3])
@pytest.mark.parametrize("num_sentences", [1, 2])
def test_it_equals_the_equations(beside_size: int, num_sentences: int) -> None:
    network = BiattentiveEncoder(
        input_size=4, beside_size=beside_size, hidden_size=3, num_sentences=num_sentences, dropout=0.0
    ).double()
    randomise(network)
    generator = np.random.default_rng(0)
    lengths = [[2, 4], [5, 1]][:num_sentences]  # of each sentence in each row
    sentences, inputs = [], []
    for of_rows in lengths:
        x = [generator.normal(size=(n, 4)) for n in of_rows]
        beside = [generator.normal(size=(n, 3)) if beside_size else None for n in of_rows]
        sentences.append([encoded(network, a, b) for a, b in zip(x, beside, strict=True)])
        pad = torch.nn.utils.rnn.pad_sequence
        inputs.append(
            ElmoVectors(
                inputs=pad([torch.from_numpy(a) for a in x], batch_first=True),
                outputs=pad([torch.from_numpy(b) for b in beside], batch_first=True) if beside_size else None,
                words=torch.arange(max(of_rows)) < torch.tensor(of_rows)[:, None],
                hidden_states=None,
            )
        )
    with torch.no_grad():
        output = network(*inputs)
    assert output.shape[1] == network.output_size
    for row in range(2):
        others = [sentences[num_sentences - 1 - k][row] for k in range(num_sentences)]
        expected = [pooled(network, k, sentences[k][row], others[k]) for k in range(num_sentences)]
        np.testing.assert_allclose(output[row], np.concatenate(expected), atol=1e-10)


def test_the_classifier_is_three_maxout_layers() -> None:
    classifier = maxout_classifier(24, hidden_size=3, num_labels=5, dropout=0.0)
    assert [tuple(layer.linear.weight.shape) for layer in classifier] == [(48, 24), (24, 12), (20, 6)]
    assert classifier(torch.randn(2, 24)).shape == (2, 5)
