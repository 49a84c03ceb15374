import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.pooling import masked_max, masked_mean, masked_softmax

MASKS = st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=4)


@given(MASKS)
def test_they_equal_numpy_on_the_words_alone(mask: list[list[bool]]) -> None:
    words = torch.tensor(mask)
    x = torch.randn(*words.shape, 3, dtype=torch.float64) - 5  # a 0 of the padding would be the largest
    for row in range(len(x)):
        mine = x[row, words[row]].numpy()
        if len(mine):
            np.testing.assert_allclose(masked_mean(x, words)[row], mine.mean(0))
            np.testing.assert_allclose(masked_max(x, words)[row], mine.max(0))
            shares = masked_softmax(x[..., 0], words)[row, words[row]]
            np.testing.assert_allclose(shares, np.exp(mine[:, 0]) / np.exp(mine[:, 0]).sum())
        else:
            assert not masked_mean(x, words)[row].any()
            assert not masked_max(x, words)[row].any()
        assert not masked_softmax(x[..., 0], words)[row, ~words[row]].any()
