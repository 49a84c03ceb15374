import copy
from collections.abc import Callable

import pytest
import torch

from hf_elmo import ElmoModel
from hf_elmo.weights_snapshot import WeightsSnapshot
from tests.hf_elmo.models import random_model


def _step(model: ElmoModel) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(1, 2, 50, dtype=torch.long)).last_hidden_state.sum().backward()
    optimizer.step()


@torch.no_grad()
def _in_place(model: ElmoModel) -> None:
    model.layers[1].backward_lstm.gates.bias[3] += 1


def _buffer(model: ElmoModel) -> None:
    model.initial_state.cell.fill_(0.5)


def _replaced(model: ElmoModel) -> None:
    model.character_cnn.projection.weight = torch.nn.Parameter(model.character_cnn.projection.weight.detach().clone())


def _data_replaced(model: ElmoModel) -> None:
    model.scalar_mix.weights.data = torch.ones_like(model.scalar_mix.weights)


@pytest.mark.parametrize(
    "change",
    [
        _step,
        _in_place,
        _buffer,
        _replaced,
        _data_replaced,
        lambda model: model.double(),
        lambda model: model.load_state_dict(random_model(initial_state="warm").state_dict()),
    ],
    ids=["optimizer", "in place", "buffer", "replaced", "data replaced", "dtype", "loaded"],
)
def test_changes_are_noticed(change: Callable[[ElmoModel], object]) -> None:
    model = random_model(initial_state="warm")
    snapshot = WeightsSnapshot(model)
    model(torch.ones(1, 2, 50, dtype=torch.long))
    model.train().eval().requires_grad_(True).float()
    assert snapshot.matches(model)
    change(model)
    assert not snapshot.matches(model)
    assert WeightsSnapshot(model).matches(model)


def test_another_model_of_equal_weights_is_another() -> None:
    model = random_model()
    assert not WeightsSnapshot(model).matches(copy.deepcopy(model))
    assert not WeightsSnapshot(model).matches(random_model(initial_state="warm"))


def test_weights_made_in_inference_mode_can_be_watched() -> None:
    with torch.inference_mode():
        model = random_model()
    assert WeightsSnapshot(model).matches(model)
