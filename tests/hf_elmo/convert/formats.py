"""The same random weights in every form that old programs left them in, restated from what those programs do."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.oracles import random_weights

OPTIONS = random_weights.options("tiny")
WEIGHTS = random_weights.random_weights(OPTIONS, seed=0)
VOCABULARY = ["<S>", "</S>", "<UNK>", *(f"w{number}" for number in range(9)), "naïve"]
TENSORFLOW_NAMES = {
    "RNN/MultiRNNCell/Cell": "rnn/multi_rnn_cell/cell_",
    "LSTMCell/W_P_0": "lstm_cell/projection/kernel",
    "LSTMCell/W_0": "lstm_cell/kernel",
    "LSTMCell/B": "lstm_cell/bias",
}


def vocabulary_file(folder: Path, name: str = "vocab.txt") -> Path:
    path = folder / name
    path.write_text("".join(f"{word}\n" for word in VOCABULARY), encoding="utf-8")
    return path


def model_folder(folder: Path, weights_name: str = "model.hdf5") -> Path:
    """Options, weights and vocabulary, as the NLPL repository has them."""
    folder.mkdir(parents=True, exist_ok=True)
    random_weights.write_options(folder / "options.json", OPTIONS)
    random_weights.write_hdf5(folder / weights_name, WEIGHTS)
    vocabulary_file(folder)
    return folder


def tensorflow_name(dataset: str) -> str:
    for ours, theirs in TENSORFLOW_NAMES.items():
        dataset = dataset.replace(ours, theirs)
    return f"lm/{dataset}"


def tensorflow_variables(weights: Mapping[str, np.ndarray] = WEIGHTS, seed: int = 5) -> dict[str, np.ndarray]:
    """All that bilm-tf saves while it trains: the biLM, its softmax, Adagrad's accumulators and two counters."""
    rng = np.random.default_rng(seed)
    width = weights["RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"].shape[0] // 2
    variables = {tensorflow_name(name): values for name, values in weights.items()}
    variables["lm/softmax/W"] = rng.standard_normal((len(VOCABULARY), width), dtype=np.float32)
    variables["lm/softmax/b"] = rng.standard_normal(len(VOCABULARY), dtype=np.float32)
    sums = {f"{name}/Adagrad": 1 + rng.random(values.shape, dtype=np.float32) for name, values in variables.items()}
    return {**variables, **sums, "global_step": np.float32(7), "train_perplexity": np.float32(40)}


def write_checkpoint(prefix: Path, variables: Mapping[str, np.ndarray]) -> None:
    """A TensorFlow checkpoint, written by TensorFlow."""
    import tensorflow as tf

    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(variables),
        shape_and_slices=[""] * len(variables),
        tensors=[tf.constant(values) for values in variables.values()],
    )


def allennlp_state(
    options: Mapping[str, Any] = OPTIONS, weights: Mapping[str, np.ndarray] = WEIGHTS, prefix: str = "_elmo_lstm."
) -> dict[str, Tensor]:
    """What AllenNLP's ELMo holds after it has loaded a weight file."""

    def gates(rows: np.ndarray) -> np.ndarray:
        i, j, f, o = np.split(rows, 4)
        return np.concatenate([i, f, j, o])

    state = {"_token_embedder._char_embedding_weights": np.pad(weights["char_embed"], ((1, 0), (0, 0)))}
    for number in range(len(options["char_cnn"]["filters"])):
        kernel = weights[f"CNN/W_cnn_{number}"][0]  # (width, d, count)
        state[f"_token_embedder.char_conv_{number}.weight"] = kernel.transpose(2, 1, 0)
        state[f"_token_embedder.char_conv_{number}.bias"] = weights[f"CNN/b_cnn_{number}"]
    for number in range(options["char_cnn"]["n_highway"]):
        path = f"CNN_high_{number}"
        layer = f"_token_embedder._highways._layers.{number}"
        state[f"{layer}.weight"] = np.concatenate([weights[f"{path}/W_transform"].T, -weights[f"{path}/W_carry"].T])
        state[f"{layer}.bias"] = np.concatenate([weights[f"{path}/b_transform"], -weights[f"{path}/b_carry"]])
    state["_token_embedder._projection.weight"] = weights["CNN_proj/W_proj"].T
    state["_token_embedder._projection.bias"] = weights["CNN_proj/b_proj"]
    cells, width = options["lstm"]["dim"], options["lstm"]["projection_dim"]
    for direction, name in enumerate(("forward", "backward")):
        for layer in range(options["lstm"]["n_layers"]):
            path = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            cell = f"_elmo_lstm.{name}_layer_{layer}"
            kernel = gates(weights[f"{path}/W_0"].T)  # (4D, 2P)
            bias = weights[f"{path}/B"].copy()
            bias[2 * cells : 3 * cells] += 1
            state[f"{cell}.input_linearity.weight"] = kernel[:, :width]
            state[f"{cell}.state_linearity.weight"] = kernel[:, width:]
            state[f"{cell}.state_linearity.bias"] = gates(bias)
            state[f"{cell}.state_projection.weight"] = weights[f"{path}/W_P_0"].T
    return {f"{prefix}{name}": torch.from_numpy(np.ascontiguousarray(values)) for name, values in state.items()}


def allennlp_mix(number: int, weights: tuple[float, ...], gamma: float, prefix: str = "") -> dict[str, Tensor]:
    mix = {f"{prefix}scalar_mix_{number}.gamma": torch.tensor([gamma])}
    for layer, weight in enumerate(weights):
        mix[f"{prefix}scalar_mix_{number}.scalar_parameters.{layer}"] = torch.tensor([weight])
    return mix


def same_parameters(folder: Path, other: Path) -> bool:
    """Whether two model folders hold the same tensors, bit by bit."""
    from safetensors.torch import load_file

    one, two = (load_file(place / "model.safetensors") for place in (folder, other))
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)
