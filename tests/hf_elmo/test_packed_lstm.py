"""The packed LSTM against the oracle's, one sequence at a time."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo import prepacked_linear
from hf_elmo.packed_lstm import PackedLSTM
from hf_elmo.projected_lstm import ProjectedLSTM
from tests.hf_elmo.models import randomise
from tests.oracles import numpy_elmo

P = 4
SIZES = [(7, 0.4, 0.2), (7, None, 0.2), (7, 0.4, None), (P, 0.4, 0.2), (P, None, None)]


def _lstm(lstm_size: int, cell_clip: float | None, projection_clip: float | None) -> ProjectedLSTM:
    lstm = ProjectedLSTM(projection_size=P, lstm_size=lstm_size, cell_clip=cell_clip, projection_clip=projection_clip)
    randomise(lstm, std=0.7)
    return lstm


@pytest.mark.parametrize("prepacked", [True, False], ids=["prepacked", "plain"])
@pytest.mark.parametrize(("lstm_size", "cell_clip", "projection_clip"), SIZES)
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4), data=st.data())
def test_ragged_batches_equal_the_oracle(
    prepacked: bool,
    lstm_size: int,
    cell_clip: float | None,
    projection_clip: float | None,
    lengths: list[int],
    data: st.DataObject,
) -> None:
    """Read in any number of parts, from any state."""
    lstm = _lstm(lstm_size, cell_clip, projection_clip)
    lengths = sorted(lengths, reverse=True)
    generator = np.random.default_rng(len(lengths))
    inputs = [generator.standard_normal((length, P)) for length in lengths]
    cells, hiddens = (generator.standard_normal((len(lengths), width)) for width in (lstm_size, P))
    cuts = data.draw(st.sets(st.integers(1, lengths[0] - 1)) if lengths[0] > 1 else st.just(set()))

    with pytest.MonkeyPatch.context() as patch, torch.inference_mode():
        if not prepacked:
            patch.setattr(prepacked_linear, "onednn_works", lambda dtype: False)
        packed = PackedLSTM(lstm, dtype=torch.float32, precision="fp32")
        cell, hidden = (torch.tensor(x, dtype=torch.float32) for x in (cells, hiddens))
        found: list[list[np.ndarray]] = [[] for _ in lengths]
        for first, last in pairwise([0, *sorted(cuts), lengths[0]]):
            rows = [(step, row) for step in range(first, last) for row in range(len(lengths)) if step < lengths[row]]
            part = torch.tensor(np.array([inputs[row][step] for step, row in rows]), dtype=torch.float32)
            sizes = [sum(length > step for length in lengths) for step in range(first, last)]
            for (_, row), output in zip(rows, packed.read(part, sizes, cell, hidden), strict=True):
                found[row].append(output.numpy().copy())

    weights = {name: value.detach().double().numpy() for name, value in lstm.named_parameters()}
    clips = {"cell_clip": cell_clip, "proj_clip": projection_clip}
    W_P = weights["projection.weight"].T if "projection.weight" in weights else None
    for row in range(len(lengths)):
        outputs, last_cell, last_hidden = numpy_elmo.lstm(
            inputs[row],
            cells[row],
            hiddens[row],
            W=weights["gates.weight"].T,
            B=weights["gates.bias"],
            W_P=W_P,
            **clips,
        )
        np.testing.assert_allclose(np.array(found[row]), outputs, rtol=0, atol=1e-5)
        np.testing.assert_allclose(cell[row], last_cell, rtol=0, atol=1e-5)
        if lengths[row] == lengths[0]:  # the others have no more use for theirs
            np.testing.assert_allclose(hidden[row], last_hidden, rtol=0, atol=1e-5)


def test_the_models_weights_are_left_as_they_are() -> None:
    lstm = _lstm(7, 0.4, 0.2)
    before = {name: value.clone() for name, value in lstm.state_dict().items()}
    with torch.inference_mode():
        for precision in ("fp32", "bf16"):
            packed = PackedLSTM(lstm, dtype=torch.float32, precision=precision)
            packed.read(torch.ones(3, P), [2, 1], torch.ones(2, 7), torch.ones(2, P))
    for name, value in lstm.state_dict().items():
        assert torch.equal(value, before[name])
