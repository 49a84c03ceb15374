"""The gradient of a training step against one derived by hand in NumPy.

Dropout at its three places by given masks, LSTMs with clips that act and a projection, the skip connection, and the
sampled softmax by given negatives; for streams, and for padded whole sentences.
"""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from hf_elmo import ElmoForPreTraining
from hf_elmo.initial_state import ElmoState
from hf_elmo.sampled_softmax import Negatives
from tests.hf_elmo.models import ids, random_lm
from tests.oracles import numpy_training
from tests.oracles.numpy_training import Cell, Clips, Softmax, direction_loss

CLIPS = Clips(cell=0.6, projection=0.4)
DROPOUT = 0.3
P, D, LAYERS, WORDS = 6, 10, 2, 29
NEGATIVES = (np.array([3, 0, 7, 12, 28, 5]), np.array([1, 2, 9, 3, 20, 21])), (9, 40)  # per direction; tries
SENTENCES = [["a", "b", "naïve", "dog"], ["東京"], ["x", "a"]]


@pytest.fixture
def model() -> ElmoForPreTraining:
    clips = {"cell_clip": CLIPS.cell, "projection_clip": CLIPS.projection}
    return random_lm(dropout=DROPOUT, num_negative_samples=6, **clips).double().train()


class GivenChance:
    """Replaces what is random in a step, and keeps the token vectors of both directions."""

    def __init__(self, model: ElmoForPreTraining, patch: pytest.MonkeyPatch, shape: tuple[int, ...]) -> None:
        rng = np.random.default_rng(1)
        self.masks = [(rng.random((*shape, 2 * P)) > DROPOUT) / (1 - DROPOUT) for _ in range(LAYERS + 1)]
        left = iter(self.masks)

        def dropout(x: torch.Tensor, p: float, training: bool) -> torch.Tensor:
            assert p == DROPOUT
            assert training
            return x * torch.from_numpy(next(left))

        self.left: Iterator[np.ndarray] = left
        draws = iter(Negatives(torch.from_numpy(classes), tries) for classes, tries in zip(*NEGATIVES, strict=True))
        patch.setattr("hf_elmo.modeling_elmo.F.dropout", dropout)
        patch.setattr("hf_elmo.lm_head.draw_negatives", lambda *_: next(draws))
        self.vectors: list[torch.Tensor] = []
        model.elmo.character_cnn.register_forward_hook(self._keep)

    def _keep(self, module: torch.nn.Module, inputs: object, output: torch.Tensor) -> None:
        output.retain_grad()
        self.vectors.append(output)


def weights_of(model: ElmoForPreTraining, direction: int) -> tuple[list[Cell], Softmax]:
    """In the layout of the published files."""
    cells = []
    for layer in model.elmo.layers:
        lstm = layer.forward_lstm if direction == 0 else layer.backward_lstm
        gates, projection = lstm.gates, lstm.projection
        cells.append(Cell(*(v.detach().numpy() for v in (gates.weight.T, gates.bias, projection.weight.T))))
    head = model.lm_head
    return cells, Softmax(
        head.weight.detach().numpy(), head.bias.detach().numpy(), NEGATIVES[0][direction], NEGATIVES[1][direction]
    )


def assert_same_gradients(model: ElmoForPreTraining, expected: list[dict[str, np.ndarray]]) -> None:
    """`expected` per direction, of the mean loss of both."""
    for direction, gradients in enumerate(expected):
        for number, layer in enumerate(model.elmo.layers):
            lstm = layer.forward_lstm if direction == 0 else layer.backward_lstm
            for parameter, name in ((lstm.gates.weight, "W"), (lstm.gates.bias, "B"), (lstm.projection.weight, "W_P")):
                got = parameter.grad.numpy()
                np.testing.assert_allclose(got.T, gradients[f"{name}{number}"], rtol=0, atol=1e-13)
    head = model.lm_head
    for parameter, name in ((head.weight, "softmax_W"), (head.bias, "softmax_b")):
        grad = parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad
        np.testing.assert_allclose(grad, sum(of[name] for of in expected), rtol=0, atol=1e-13)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_streams(model: ElmoForPreTraining, monkeypatch: pytest.MonkeyPatch, sparse: bool) -> None:
    B, T = 3, 5
    rng = np.random.default_rng(0)
    chance = GivenChance(model, monkeypatch, (B, T))
    model.lm_head.sparse_gradient = sparse
    targets = rng.integers(0, WORDS, (2, B, T))
    targets[0, 0, :3], targets[1, 1, 1] = (7, 7, 0), 9  # that are among the negatives, one of them twice
    character_ids = torch.from_numpy(rng.integers(1, 262, (2, B, T, 50)))
    state = ElmoState(*(torch.from_numpy(rng.uniform(-0.3, 0.3, (LAYERS, 2, B, width))) for width in (D, P)))
    loss = model(
        character_ids[0],
        labels=torch.from_numpy(targets[0] + 1),
        backward_character_ids=character_ids[1],
        backward_labels=torch.from_numpy(targets[1] + 1),
        state=state,
    ).loss
    loss.backward()
    [vectors] = chance.vectors  # (2, B, T, P)
    assert model.lm_head.weight.grad.is_sparse == sparse
    assert not list(chance.left)

    expected_loss, expected = 0.0, []
    for direction in range(2):
        cells, softmax = weights_of(model, direction)
        half = slice(direction * P, (direction + 1) * P)
        total: dict[str, np.ndarray] = {}
        for row in range(B):
            start = [(state.cell[layer, direction, row], state.hidden[layer, direction, row]) for layer in range(2)]
            of_row, gradients = direction_loss(
                vectors[direction, row].detach().numpy(),
                targets[direction, row],
                [mask[row, :, half] for mask in chance.masks],
                cells=cells,
                softmax=softmax,
                clips=CLIPS,
                states=[(c.numpy(), h.numpy()) for c, h in start],
            )
            share = 0.5 / (B * T)
            expected_loss += share * of_row
            x = share * gradients.pop("x")
            np.testing.assert_allclose(vectors.grad[direction, row], x, rtol=0, atol=1e-13)
            total = {name: total.get(name, 0) + share * value for name, value in gradients.items()}
        expected.append(total)
    assert loss.item() == pytest.approx(expected_loss, rel=1e-13)
    assert_same_gradients(model, expected)


@pytest.mark.parametrize("side", ["left", "right"])
def test_whole_sentences(model: ElmoForPreTraining, monkeypatch: pytest.MonkeyPatch, side: str) -> None:
    character_ids, mask = ids(SENTENCES, side=side)
    chance = GivenChance(model, monkeypatch, mask.shape)
    rows = np.random.default_rng(2).integers(0, WORDS, mask.shape)
    loss = model(character_ids, mask, labels=torch.from_numpy(rows + 1)).loss  # padding has a label too: not read
    loss.backward()
    [vectors] = chance.vectors  # (B, T, P)

    share = 0.5 / sum(len(words) + 1 for words in SENTENCES)
    expected_loss, expected, d_vectors = 0.0, [], np.zeros(vectors.shape)
    for direction in range(2):
        cells, softmax = weights_of(model, direction)
        half = slice(direction * P, (direction + 1) * P)
        total: dict[str, np.ndarray] = {}
        for row, there in enumerate(mask.bool().numpy()):
            read = np.flatnonzero(there)[:: 1 if direction == 0 else -1]
            of_row, gradients = direction_loss(
                vectors[row, read.copy()].detach().numpy(),
                np.array([*rows[row, read[1:]], -1]),
                [given[row, read, half] for given in chance.masks],
                cells=cells,
                softmax=softmax,
                clips=CLIPS,
            )
            expected_loss += share * of_row
            d_vectors[row, read] += share * gradients.pop("x")
            total = {name: total.get(name, 0) + share * value for name, value in gradients.items()}
        expected.append(total)
    assert loss.item() == pytest.approx(expected_loss, rel=1e-13)
    np.testing.assert_allclose(vectors.grad, d_vectors, rtol=0, atol=1e-13)
    assert_same_gradients(model, expected)


class TestOracle:
    """The gradient derived by hand is the one of its own loss, in a case in which everything acts."""

    @pytest.fixture
    def case(self, model: ElmoForPreTraining) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(3)
        cells, softmax = weights_of(model, 0)
        named = {f"{name}{n}": values for n, cell in enumerate(cells) for name, values in cell._asdict().items()}
        return {**named, "softmax_W": softmax.W, "softmax_b": softmax.b, "x": rng.normal(size=(7, P))}

    def step(self, values: dict[str, np.ndarray], clips: Clips = CLIPS) -> tuple[float, dict[str, np.ndarray]]:
        rng = np.random.default_rng(4)
        masks = [(rng.random((7, P)) > DROPOUT) / (1 - DROPOUT) for _ in range(LAYERS + 1)]
        cells = [Cell(values[f"W{n}"], values[f"B{n}"], values[f"W_P{n}"]) for n in range(LAYERS)]
        softmax = Softmax(values["softmax_W"], values["softmax_b"], NEGATIVES[0][0], NEGATIVES[1][0])
        targets = np.array([7, 3, -1, 28, 11, 0, 7])
        return direction_loss(values["x"], targets, masks, cells=cells, softmax=softmax, clips=clips)

    def test_central_differences(self, case: dict[str, np.ndarray]) -> None:
        _, gradients = self.step(case)
        assert gradients.keys() == case.keys()
        rng = np.random.default_rng(5)
        for name, values in case.items():
            for _ in range(3):
                aside = 1e-6 * rng.normal(size=values.shape)
                (up, _), (down, _) = (self.step({**case, name: values + sign * aside}) for sign in (1, -1))
                assert up - down == pytest.approx(2 * (gradients[name] * aside).sum(), rel=1e-5, abs=1e-12), name

    def test_both_clips_act(self, case: dict[str, np.ndarray]) -> None:
        losses = {self.step(case, Clips(*bounds))[0] for bounds in (CLIPS, (9.0, CLIPS[1]), (CLIPS[0], 9.0))}
        assert len(losses) == 3

    def test_the_expected_count(self) -> None:
        """Of few tries: the chance that a class is among them, counted out."""
        p = np.log(np.arange(5) + 2.0) - np.log(np.arange(5) + 1.0)
        p /= np.log(6.0)
        among = [sum(p[a] * p[b] for a in range(5) for b in range(5) if k in (a, b)) for k in range(5)]
        np.testing.assert_allclose(np.exp(numpy_training.log_expected_count(np.arange(5), 5, 2)), among, rtol=1e-12)
