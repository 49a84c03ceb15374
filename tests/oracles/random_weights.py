"""Options and random weights of any size, in the layout of the published options.json and weights.hdf5."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

PAPER_FILTERS = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
TINY: dict[str, Any] = {
    "dim": 64,
    "projection_dim": 16,
    "embedding_dim": 4,
    "filters": [[1, 4], [2, 8], [3, 16], [4, 32], [5, 64]],
}

# Arguments of `make_options` by name. The first four are real sizes (tiny: the references' own fixture);
# each of the others bends tiny in one respect that the options allow.
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "tiny": TINY,
    "small": {"dim": 1024, "projection_dim": 128, "n_highway": 1},
    "medium": {"dim": 2048, "projection_dim": 256, "n_highway": 1},
    "original": {"dim": 4096, "projection_dim": 512},
    "no_skip": {**TINY, "use_skip_connections": False},
    "tanh": {**TINY, "activation": "tanh"},
    "one_layer": {**TINY, "n_layers": 1},
    "three_layers": {**TINY, "n_layers": 3},
    "no_highway": {**TINY, "n_highway": 0},
    "three_highways": {**TINY, "n_highway": 3},
    "no_clip": {**TINY, "cell_clip": None, "proj_clip": 0},
    "tight_clip": {**TINY, "cell_clip": 0.5, "proj_clip": 0.25},
    "no_lstm_projection": {**TINY, "dim": 16, "proj_clip": 0.25},  # then this clip is without effect
    "no_cnn_projection": {**TINY, "filters": [[1, 4], [3, 12]]},
    "one_filter": {**TINY, "filters": [[3, 20]]},
    "twelve_characters": {**TINY, "max_characters": 12},
}
SIZES = ("tiny", "small", "medium", "original")
ODD = tuple(name for name in CONFIGURATIONS if name not in SIZES)


def options(name: str = "tiny", **changes: Any) -> dict[str, Any]:
    """A named configuration as the content of an options.json; `changes` are arguments of `make_options`."""
    return make_options(**{**CONFIGURATIONS[name], **changes})


def make_options(
    *,
    dim: int,
    projection_dim: int,
    n_layers: int = 2,
    cell_clip: float | None = 3,
    proj_clip: float | None = 3,
    use_skip_connections: bool = True,
    embedding_dim: int = 16,
    filters: list[list[int]] = PAPER_FILTERS,
    n_highway: int = 2,
    activation: str = "relu",
    max_characters: int = 50,
) -> dict[str, Any]:
    return {
        "lstm": {
            "dim": dim,
            "projection_dim": projection_dim,
            "n_layers": n_layers,
            "cell_clip": cell_clip,
            "proj_clip": proj_clip,
            "use_skip_connections": use_skip_connections,
        },
        "char_cnn": {
            "activation": activation,
            "embedding": {"dim": embedding_dim},
            "filters": [list(pair) for pair in filters],
            "max_characters_per_token": max_characters,
            "n_characters": 262,
            "n_highway": n_highway,
        },
    }


def random_weights(options: Mapping[str, Any], seed: int, *, tame: bool = True) -> dict[str, np.ndarray]:
    """float32 arrays by dataset name, their scales chosen so that signals neither fade nor explode.

    Tame: the recurrent rows are so small that float32 noise fades with time. Wild: so large that it grows.
    As in the reference's files, there is no projection between equal sizes (n_f == P, D == P).
    """
    rng = np.random.default_rng(seed)
    D, P = options["lstm"]["dim"], options["lstm"]["projection_dim"]
    d, filters = options["char_cnn"]["embedding"]["dim"], options["char_cnn"]["filters"]
    n_f = sum(count for _, count in filters)

    def normal(*shape: int, scale: float, mean: float = 0.0) -> np.ndarray:
        return mean + scale * rng.standard_normal(shape, dtype=np.float32)

    weights = {"char_embed": rng.uniform(-1, 1, (261, d))}
    for i, (width, count) in enumerate(filters):
        weights[f"CNN/W_cnn_{i}"] = normal(1, width, d, count, scale=(width * d) ** -0.5)
        weights[f"CNN/b_cnn_{i}"] = normal(count, scale=0.1)
    for k in range(options["char_cnn"]["n_highway"]):
        weights[f"CNN_high_{k}/W_carry"] = normal(n_f, n_f, scale=n_f**-0.5)
        weights[f"CNN_high_{k}/b_carry"] = normal(n_f, scale=0.1, mean=-1)  # training starts at -2, almost shut
        weights[f"CNN_high_{k}/W_transform"] = normal(n_f, n_f, scale=n_f**-0.5)
        weights[f"CNN_high_{k}/b_transform"] = normal(n_f, scale=0.1)
    if n_f != P:
        weights["CNN_proj/W_proj"] = normal(n_f, P, scale=n_f**-0.5)
        weights["CNN_proj/b_proj"] = normal(P, scale=0.1)
    recurrent_bound = (0.3 if tame else 4.0) / (2 * P) ** 0.5
    for direction in range(2):
        for layer in range(options["lstm"]["n_layers"]):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            input_rows = normal(P, 4 * D, scale=P**-0.5)
            recurrent_rows = rng.uniform(-recurrent_bound, recurrent_bound, (P, 4 * D))
            weights[f"{cell}/W_0"] = np.concatenate([input_rows, recurrent_rows])
            weights[f"{cell}/B"] = normal(4 * D, scale=0.1)
            if D != P:
                weights[f"{cell}/W_P_0"] = normal(D, P, scale=2 * D**-0.5)
    return {name: array.astype(np.float32) for name, array in weights.items()}


def write_hdf5(path: str | Path, weights: Mapping[str, np.ndarray]) -> None:
    """Writes a weights.hdf5."""
    with h5py.File(path, "w") as file:
        for name, array in weights.items():
            file[name] = array


def write_options(path: str | Path, options: Mapping[str, Any]) -> None:
    """Writes an options.json."""
    Path(path).write_text(json.dumps(options, indent=2), encoding="utf-8")
