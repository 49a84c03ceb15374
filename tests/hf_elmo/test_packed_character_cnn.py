import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_elmo import prepacked_linear
from hf_elmo.character_cnn import CharacterCNN
from hf_elmo.packed_character_cnn import PackedCharacterCNN
from tests.hf_elmo.models import randomise, tiny_config
from tests.oracles import numpy_elmo

rows = st.text(st.characters(exclude_categories=["Cs"]), max_size=60).map(numpy_elmo.word_to_ids)
strange_rows = st.lists(st.integers(0, 261), min_size=50, max_size=50)
CONFIGS = {
    "tiny": tiny_config(),
    "tanh": tiny_config(character_activation="tanh"),
    "no highway": tiny_config(num_highway_layers=0),
    "no projection": tiny_config(character_filters=[[1, 2], [50, 4]]),
}


@pytest.mark.parametrize("prepacked", [True, False], ids=["prepacked", "plain"])
@pytest.mark.parametrize("name", CONFIGS)
@settings(max_examples=10)
@given(words=st.lists(rows | strange_rows, max_size=6))
def test_vectors_are_those_of_the_plain_computation(prepacked: bool, name: str, words: list[list[int]]) -> None:
    cnn = CharacterCNN(CONFIGS[name])
    randomise(cnn)
    character_ids = torch.tensor(words, dtype=torch.long).view(len(words), 50)
    with pytest.MonkeyPatch.context() as patch, torch.inference_mode():
        if not prepacked:
            patch.setattr(prepacked_linear, "onednn_works", lambda dtype: False)
        found = PackedCharacterCNN(cnn, dtype=torch.float32)(character_ids)
        exact = PackedCharacterCNN(cnn, dtype=torch.float64)(character_ids)
        expected = cnn.double().word_vectors(character_ids)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(exact, expected, rtol=0, atol=1e-12)
