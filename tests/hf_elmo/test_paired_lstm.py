"""Both directions at once against the oracle's LSTM, one direction at a time."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo import prepacked_linear
from hf_elmo.paired_lstm import PairedLSTM
from hf_elmo.projected_lstm import ProjectedLSTM
from tests.hf_elmo.models import randomise
from tests.oracles import numpy_elmo

P = 4
SIZES = [(7, 0.4, 0.2), (7, None, 0.2), (7, 0.4, None), (P, 0.4, 0.2), (P, None, None)]


def _pair(lstm_size: int, cell_clip: float | None, projection_clip: float | None) -> list[ProjectedLSTM]:
    """Two LSTMs with different weights."""
    both = torch.nn.ModuleList(
        ProjectedLSTM(projection_size=P, lstm_size=lstm_size, cell_clip=cell_clip, projection_clip=projection_clip)
        for _ in range(2)
    )
    randomise(both, std=0.7)
    assert not torch.equal(both[0].gates.weight, both[1].gates.weight)
    return list(both)


@pytest.mark.parametrize("prepacked", [True, False], ids=["prepacked", "plain"])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=["float32", "float64"]
)
@pytest.mark.parametrize(("lstm_size", "cell_clip", "projection_clip"), SIZES)
@given(length=st.integers(1, 7), data=st.data())
def test_a_sentence_equals_the_oracle(
    prepacked: bool,
    dtype: torch.dtype,
    tolerance: float,
    lstm_size: int,
    cell_clip: float | None,
    projection_clip: float | None,
    length: int,
    data: st.DataObject,
) -> None:
    """Read in any number of parts, from any state."""
    lstms = _pair(lstm_size, cell_clip, projection_clip)
    generator = np.random.default_rng(length)
    inputs = generator.standard_normal((length, 2, P))
    cells, hiddens = (generator.standard_normal((2, 1, width)) for width in (lstm_size, P))
    cuts = data.draw(st.sets(st.integers(1, length - 1)) if length > 1 else st.just(set()))

    with pytest.MonkeyPatch.context() as patch, torch.inference_mode():
        if not prepacked:
            patch.setattr(prepacked_linear, "onednn_works", lambda dtype: False)
        paired = PairedLSTM(lstms, dtype=dtype)
        cell, hidden = (torch.tensor(x, dtype=dtype) for x in (cells, hiddens))
        found = torch.cat(
            [
                paired.read(torch.tensor(inputs[first:last], dtype=dtype), cell, hidden)
                for first, last in pairwise([0, *sorted(cuts), length])
            ]
        )

    for direction, lstm in enumerate(lstms):
        weights = {name: value.detach().double().numpy() for name, value in lstm.named_parameters()}
        outputs, last_cell, last_hidden = numpy_elmo.lstm(
            inputs[:, direction],
            cells[direction, 0],
            hiddens[direction, 0],
            W=weights["gates.weight"].T,
            B=weights["gates.bias"],
            W_P=weights["projection.weight"].T if "projection.weight" in weights else None,
            cell_clip=cell_clip,
            proj_clip=projection_clip,
        )
        np.testing.assert_allclose(found[:, direction], outputs, rtol=0, atol=tolerance)
        np.testing.assert_allclose(cell[direction, 0], last_cell, rtol=0, atol=tolerance)
        np.testing.assert_allclose(hidden[direction, 0], last_hidden, rtol=0, atol=tolerance)


def test_the_models_weights_are_left_as_they_are() -> None:
    lstms = _pair(7, 0.4, 0.2)
    before = [{name: value.clone() for name, value in lstm.state_dict().items()} for lstm in lstms]
    with torch.inference_mode():
        PairedLSTM(lstms, dtype=torch.float32).read(torch.ones(3, 2, P), torch.ones(2, 1, 7), torch.ones(2, 1, P))
    for lstm, values in zip(lstms, before, strict=True):
        for name, value in lstm.state_dict().items():
            assert torch.equal(value, values[name])
