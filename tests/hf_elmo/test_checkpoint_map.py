import numpy as np
import pytest

from hf_elmo import ElmoModel
from hf_elmo.checkpoint_map import checkpoint_map
from tests.hf_elmo.models import tiny_config
from tests.oracles import random_weights

CONFIGS = {
    "default": {},
    "one layer": {"num_hidden_layers": 1},
    "no highway": {"num_highway_layers": 0},
    "no LSTM projection": {"lstm_size": 6},
    "no CNN projection": {"character_filters": [[2, 6]]},
}


@pytest.mark.parametrize("changes", CONFIGS.values(), ids=CONFIGS)
def test_the_table_names_every_parameter_once(changes: dict[str, object]) -> None:
    config = tiny_config(**changes)
    parameters = ElmoModel(config).state_dict()
    entries = checkpoint_map(config)
    named = [entry.parameter for entry in entries]
    assert sorted(named) == sorted(name for name in parameters if not name.startswith("scalar_mix."))
    assert len({entry.dataset for entry in entries}) == len(entries)


def test_to_the_model_and_back_is_the_identity() -> None:
    options = random_weights.options("tiny")
    weights = random_weights.random_weights(options, seed=0)
    config = tiny_config(
        character_embedding_size=4,
        character_filters=options["char_cnn"]["filters"],
        lstm_size=64,
        projection_size=16,
    )
    parameters = ElmoModel(config).state_dict()
    for entry in checkpoint_map(config):
        original = weights[entry.dataset]
        assert original.shape == entry.shape
        ours = entry.layout.from_file(original)
        assert ours.shape == parameters[entry.parameter].shape
        np.testing.assert_array_equal(entry.layout.to_file(ours), original)


def test_every_dataset_of_the_original_layout_has_its_entry() -> None:
    for name in ("tiny", "no_highway", "no_lstm_projection", "no_cnn_projection", "three_layers"):
        options = random_weights.options(name)
        config = tiny_config(
            character_embedding_size=options["char_cnn"]["embedding"]["dim"],
            character_filters=options["char_cnn"]["filters"],
            num_highway_layers=options["char_cnn"]["n_highway"],
            lstm_size=options["lstm"]["dim"],
            projection_size=options["lstm"]["projection_dim"],
            num_hidden_layers=options["lstm"]["n_layers"],
        )
        assert {entry.dataset for entry in checkpoint_map(config)} == set(random_weights.random_weights(options, 0))
