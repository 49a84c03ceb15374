from pathlib import Path

import pytest
import torch

from hf_elmo import ElmoModel
from hf_elmo.initial_state import CarriedState, ElmoState
from tests.hf_elmo.models import ids, random_model, tiny_config

BATCH = ids([["a", "b", "c"], ["d"]])


def _run(model: ElmoModel, state: ElmoState | None = None) -> torch.Tensor:
    with torch.no_grad():
        return model(*BATCH, state=state).last_hidden_state


def test_zero_is_what_no_state_means() -> None:
    model = random_model()
    assert torch.equal(_run(model), _run(model, ElmoState.zeros(model.config, 2, like=torch.zeros(1))))


def test_a_warm_state_is_stored_with_the_weights_and_used(tmp_path: Path) -> None:
    model = random_model(initial_state="warm")
    cold = _run(model)
    with torch.no_grad():
        state = model(*BATCH, state=model.initial_state(2, torch.zeros(1))).state
    model.initial_state.store(state)
    warm = _run(model)
    assert not torch.allclose(warm, cold)
    mean = ElmoState(*(part.mean(2, keepdim=True).expand(-1, -1, 2, -1) for part in state))
    torch.testing.assert_close(_run(random_model(), mean), warm)
    model.save_pretrained(tmp_path)
    torch.testing.assert_close(_run(ElmoModel.from_pretrained(tmp_path)), warm)


def test_storing_needs_a_warm_configuration() -> None:
    model = random_model()
    with pytest.raises(ValueError, match='initial_state="warm"'):
        model.initial_state.store(ElmoState.zeros(model.config, 1, like=torch.zeros(1)))


def test_carry_returns_the_state_and_others_do_not() -> None:
    carrying, plain = random_model(initial_state="carry"), random_model()
    with torch.no_grad():
        assert carrying(*BATCH).state is not None
        assert plain(*BATCH).state is None


def test_rows_are_matched_by_position() -> None:
    model = ElmoModel(tiny_config())
    carried = CarriedState()
    state = carried.take(model, 2)
    assert not state.cell.any()
    carried.put(ElmoState(state.cell + 1, state.hidden + 1))
    carried.put(ElmoState(state.cell[:, :, :1] + 2, state.hidden[:, :, :1] + 2))  # a smaller batch
    larger = carried.take(model, 3)
    assert larger.cell[0, 0, :, 0].tolist() == [2, 1, 0]
    assert larger.hidden[1, 1, :, 0].tolist() == [2, 1, 0]


def test_a_state_of_another_batch_size_is_refused() -> None:
    model = random_model()
    with pytest.raises(ValueError, match="of 3 rows; expected 2"):
        _run(model, ElmoState.zeros(model.config, 3, like=torch.zeros(1)))
