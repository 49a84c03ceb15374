"""Models of the published sizes for the benchmarks, and their weights in the original's format."""

from typing import Any

import numpy as np
import torch

from hf_elmo import ElmoConfig, ElmoModel
from hf_elmo.checkpoint_map import checkpoint_map
from hf_elmo.model_source import load_model

SIZES: dict[str, dict[str, int]] = {
    "small": {"lstm_size": 1024, "projection_size": 128, "num_highway_layers": 1},
    "medium": {"lstm_size": 2048, "projection_size": 256, "num_highway_layers": 1},
    "original": {"lstm_size": 4096, "projection_size": 512, "num_highway_layers": 2},
}
NAMES = ("shipped", *SIZES)
TINY: dict[str, Any] = {
    "lstm_size": 32,
    "projection_size": 8,
    "num_highway_layers": 1,
    "character_embedding_size": 4,
    "character_filters": [[1, 4], [2, 8], [3, 8]],
}


def build(name: str) -> ElmoModel:
    """The shipped model, or one of a published size, or `"tiny"`, with random weights."""
    if name == "shipped":
        return _beginning_at_zero(load_model())
    torch.manual_seed(0)
    return ElmoModel(ElmoConfig(**(TINY if name == "tiny" else SIZES[name]))).eval()


def original_format(model: ElmoModel) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A model as the content of options.json and weights.hdf5."""
    config, parameters = model.config, model.state_dict()
    weights = {
        entry.dataset: entry.layout.to_file(parameters[entry.parameter].numpy()) for entry in checkpoint_map(config)
    }
    options = {
        "lstm": {
            "dim": config.lstm_size,
            "projection_dim": config.projection_size,
            "n_layers": config.num_hidden_layers,
            "cell_clip": config.cell_clip,
            "proj_clip": config.projection_clip,
            "use_skip_connections": config.use_skip_connections,
        },
        "char_cnn": {
            "activation": config.character_activation,
            "embedding": {"dim": config.character_embedding_size},
            "filters": config.character_filters,
            "max_characters_per_token": config.max_characters_per_word,
            "n_characters": config.character_vocab_size,
            "n_highway": config.num_highway_layers,
        },
    }
    return options, weights


def _beginning_at_zero(model: ElmoModel) -> ElmoModel:
    """The same weights without their warm state, which the original's way does not know; it costs no time."""
    zero = ElmoModel(ElmoConfig.from_dict({**model.config.to_dict(), "initial_state": "zero"}))
    values = model.state_dict()
    zero.load_state_dict({name: values[name] for name in zero.state_dict()})
    return zero.eval()
