import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from hf_elmo.bidirectional_rnn import BidirectionalRNN


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU])
@given(mask=st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=4))
def test_it_equals_torchs_bidirectional_layers_on_each_sentence_alone(
    cell: type[nn.LSTM] | type[nn.GRU], mask: list[list[bool]]
) -> None:
    torch.manual_seed(0)
    ours = BidirectionalRNN(cell, input_size=3, hidden_size=4, num_layers=2).double().eval()
    theirs = cell(3, 4, num_layers=2, bidirectional=True, batch_first=True).double()
    with torch.no_grad():
        for depth in range(2):
            for name, parameter in ours.forward_layers[depth].named_parameters():
                getattr(theirs, name.replace("_l0", f"_l{depth}")).copy_(parameter)
            for name, parameter in ours.backward_layers[depth].named_parameters():
                getattr(theirs, name.replace("_l0", f"_l{depth}_reverse")).copy_(parameter)
        words = torch.tensor(mask)
        x = torch.randn(*words.shape, 3, dtype=torch.float64)
        outputs = ours(x, words)
        assert not outputs[~words].any()
        for row in range(len(x)):
            if words[row].any():
                torch.testing.assert_close(outputs[row, words[row]], theirs(x[row : row + 1, words[row]])[0][0])


def test_dropout_stands_between_the_layers_only() -> None:
    mask = torch.ones(1, 5, dtype=torch.bool)
    x = torch.randn(1, 5, 3)
    one = BidirectionalRNN(nn.LSTM, input_size=3, hidden_size=4, dropout=0.9).train()
    assert torch.equal(one(x, mask), one(x, mask))
    two = BidirectionalRNN(nn.LSTM, input_size=3, hidden_size=4, num_layers=2, dropout=0.9).train()
    assert not torch.equal(two(x, mask), two(x, mask))
    assert torch.equal(two.eval()(x, mask), two(x, mask))
