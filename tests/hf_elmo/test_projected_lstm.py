"""The hand-written gradient against autograd, and the fast forms against the step-by-step one."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from hf_elmo.projected_lstm import ProjectedLSTM
from tests.hf_elmo.models import randomise

B, T, P = 3, 6, 4
cells = pytest.mark.parametrize(
    ("lstm_size", "cell_clip", "projection_clip"),
    [(7, 0.4, 0.2), (7, None, 0.2), (7, 0.4, None), (P, 0.4, 0.2), (P, None, None)],
)


def _lstm(lstm_size: int, cell_clip: float | None, projection_clip: float | None) -> ProjectedLSTM:
    lstm = ProjectedLSTM(
        projection_size=P, lstm_size=lstm_size, cell_clip=cell_clip, projection_clip=projection_clip
    ).double()
    randomise(lstm, std=0.7)
    return lstm


def _inputs(lstm_size: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = (B, T, P), (B, lstm_size), (B, P)
    return [torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_() for shape in shapes]


def _gradients(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(2)
    weights = [torch.randn(output.shape, dtype=torch.float64, generator=generator) for output in outputs]
    total = sum((output * weight).sum() for output, weight in zip(outputs, weights, strict=True))
    return torch.autograd.grad(total, inputs)


@cells
def test_the_written_gradient_equals_autograds(
    lstm_size: int, cell_clip: float | None, projection_clip: float | None
) -> None:
    lstm = _lstm(lstm_size, cell_clip, projection_clip)
    inputs = _inputs(lstm_size)
    leaves = [*inputs, *lstm.parameters()]
    fast = lstm(*inputs)
    # With a mask, if only of ones, the steps are taken one by one under autograd.
    slow = lstm(*inputs, torch.ones(B, T, dtype=torch.bool))
    assert "Sequence" in fast[0].grad_fn.next_functions[0][0].name()
    for one, other in zip(fast, slow, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    for one, other in zip(_gradients(fast, leaves), _gradients(slow, leaves), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_clips_act() -> None:
    lstm = _lstm(7, 0.4, 0.2)
    outputs, cell, _ = lstm(*_inputs(7))
    assert outputs.abs().max() == 0.2
    assert cell.abs().max() == 0.4


def test_a_finished_sequence_keeps_its_state() -> None:
    lstm = _lstm(7, 0.4, 0.2)
    inputs, cell, hidden = _inputs(7)
    mask = torch.arange(T) < torch.tensor([[T], [2], [0]])
    _, last_cell, last_hidden = lstm(inputs, cell, hidden, mask)
    _, two_cell, two_hidden = lstm(inputs[1:2, :2], cell[1:2], hidden[1:2])
    torch.testing.assert_close(last_cell[1:2], two_cell)
    torch.testing.assert_close(last_hidden[1:2], two_hidden)
    assert torch.equal(last_cell[2], cell[2])
    assert torch.equal(last_hidden[2], hidden[2])
