"""The question answering network against its equations, one question and one context, without padding."""

import numpy as np
import pytest
import torch

from hf_elmo.attention_flow import AttentionFlow
from hf_elmo.bidirectional_rnn import BidirectionalRNN
from hf_elmo.task_model import ElmoVectors
from tests.hf_elmo.models import randomise


def alone(rnn: BidirectionalRNN, x: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return rnn(torch.from_numpy(x)[None], torch.ones(1, len(x), dtype=torch.bool))[0].numpy()


def softmax(x: np.ndarray) -> np.ndarray:
    shares = np.exp(x - x.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def linear(layer: torch.nn.Linear, x: np.ndarray) -> np.ndarray:
    out = x @ layer.weight.detach().numpy().T
    return out if layer.bias is None else out + layer.bias.detach().numpy()


def scores(network: AttentionFlow, q: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From what the shared encoder gave: question (R, W), context (S, W)."""
    w1, w2, w3 = (getattr(network.question_attention, f"of_{n}").weight.detach().numpy()[0] for n in ("x", "y", "both"))
    a = np.array([[w1 @ h + w2 @ u + w3 @ (h * u) for u in q] for h in c])  # (S, R)
    to_q = softmax(a) @ q
    to_c = softmax(a.max(1)) @ c
    merged = np.concatenate([c, to_q, c * to_q, to_c * to_q], axis=1)
    x = np.maximum(linear(network.question_merge, merged), 0)
    h = alone(network.self_encoder, x)
    w2, w3 = (getattr(network.self_attention, f"of_{n}").weight.detach().numpy()[0] for n in ("y", "both"))
    a = np.array([[w2 @ v + w3 @ (u * v) for v in h] for u in h])
    np.fill_diagonal(a, -np.inf)
    attended = softmax(a) @ h if len(h) > 1 else np.zeros_like(h)
    x = x + np.maximum(linear(network.self_merge, np.concatenate([h, attended, h * attended], axis=1)), 0)
    start = alone(network.start_encoder, x)
    end = alone(network.end_encoder, np.concatenate([x, start], axis=1))
    return linear(network.start_scores, start)[:, 0], linear(network.end_scores, end)[:, 0]


@pytest.mark.parametrize("beside_size", [0, 3])
def test_it_equals_the_equations(beside_size: int) -> None:
    network = AttentionFlow(input_size=4, beside_size=beside_size, hidden_size=3, dropout=0.5).double().eval()
    randomise(network)
    generator = np.random.default_rng(0)
    pad = torch.nn.utils.rnn.pad_sequence
    encoded, inputs = [], []
    for lengths in ([2, 4], [5, 1]):  # of the questions, of the contexts
        x = [generator.normal(size=(n, 4)) for n in lengths]
        mixes = [generator.normal(size=(n, beside_size)) for n in lengths]
        encoded.append([np.concatenate([alone(network.encoder, a), b], axis=1) for a, b in zip(x, mixes, strict=True)])
        inputs.append(
            ElmoVectors(
                inputs=pad([torch.from_numpy(a) for a in x], batch_first=True),
                outputs=pad([torch.from_numpy(b) for b in mixes], batch_first=True) if beside_size else None,
                words=torch.arange(max(lengths)) < torch.tensor(lengths)[:, None],
                hidden_states=None,
            )
        )
    with torch.no_grad():
        start, end = network(*inputs)
    for row, length in enumerate((5, 1)):
        expected = scores(network, encoded[0][row], encoded[1][row])
        np.testing.assert_allclose(start[row, :length], expected[0], atol=1e-10)
        np.testing.assert_allclose(end[row, :length], expected[1], atol=1e-10)
