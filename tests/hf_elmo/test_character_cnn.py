import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_elmo.character_cnn import CharacterCNN
from tests.hf_elmo.models import randomise, tiny_config
from tests.oracles import numpy_elmo

CNN = CharacterCNN(tiny_config()).double()
randomise(CNN)

rows = st.text(st.characters(exclude_categories=["Cs"]), max_size=60).map(numpy_elmo.word_to_ids)
# Rows that no word has: the exact shortcuts may not lean on what a tokenizer writes.
strange_rows = st.lists(st.integers(0, 261), min_size=50, max_size=50)
short_rows = st.lists(st.integers(0, 3), max_size=20).map(lambda row: row + [0] * (50 - len(row)))


@settings(max_examples=25)
@given(st.lists(rows | strange_rows | short_rows, min_size=1, max_size=8))
def test_the_shortcuts_change_nothing(words: list[list[int]]) -> None:
    character_ids = torch.tensor(words)
    with torch.no_grad():
        np.testing.assert_allclose(CNN(character_ids), CNN.word_vectors(character_ids), rtol=0, atol=1e-13)


def test_leading_dimensions_are_kept() -> None:
    character_ids = torch.randint(0, 262, (2, 3, 4, 50))
    assert CNN(character_ids).shape == (2, 3, 4, 6)
    assert CNN(character_ids[:, :0]).shape == (2, 0, 4, 6)


def test_gradients_reach_every_parameter_once_per_word() -> None:
    """A word that stands twice counts twice."""
    row = torch.tensor(numpy_elmo.word_to_ids("bark"))
    gradients = []
    for times in (1, 2):
        CNN.zero_grad()
        CNN(row.expand(times, -1)).sum().backward()
        gradients.append([parameter.grad.clone() for parameter in CNN.parameters()])
    for once, twice in zip(*gradients, strict=True):
        torch.testing.assert_close(2 * once, twice)
    assert all(gradient.any() for gradient in gradients[0])
