"""ELMo (Peters et al. 2018) in plain NumPy: float64, one sentence at a time, no padding, no shortcut.

`weights` maps the dataset names of a published `weights.hdf5` to arrays (an open h5py.File will do);
`options` is the content of its `options.json`. In the shapes below T counts the words of a sentence
with its two boundaries, C the characters of a word, n_f all filters of the character CNN, P the
projection, D the LSTM cell and L the layers. Direction 0 reads forward, 1 backward.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Options = Mapping[str, Any]
Weights = Mapping[str, Any]

# Raw character ids: 0..255 are bytes. Everything this module returns is shifted by +1, so that 0 = no word.
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PAD_CHARACTER = 256, 257, 258, 259, 260
BOUNDARY_WORDS = {"<S>": BEGIN_SENTENCE, "</S>": END_SENTENCE}


class State(NamedTuple):
    """What one row of a batch hands to the same row of the next: `cell` (L, 2, D) and `hidden` (L, 2, P)."""

    cell: np.ndarray
    hidden: np.ndarray


# Word -> characters -> token vector


def word_to_ids(word: str, max_characters: int = 50) -> list[int]:
    """One word's row of C shifted character ids; `<S>` and `</S>` give the boundary rows."""
    if word in BOUNDARY_WORDS:
        inside = [BOUNDARY_WORDS[word]]
    else:
        inside = list(word.encode("utf-8", errors="ignore")[: max_characters - 2])
    row = [BEGIN_WORD, *inside, END_WORD]
    row += [PAD_CHARACTER] * (max_characters - len(row))
    return [raw + 1 for raw in row]


def sentence_to_ids(words: Sequence[str], max_characters: int = 50) -> np.ndarray:
    """Shifted character ids (T, C) of a sentence, boundaries added."""
    return np.array([word_to_ids(word, max_characters) for word in ("<S>", *words, "</S>")])


def token_vectors(ids: np.ndarray, options: Options, weights: Weights) -> np.ndarray:
    """Character ids (T, C) -> context-free vectors (T, P)."""
    table = np.pad(_float64(weights["char_embed"]), ((1, 0), (0, 0)))  # (262, d), row 0 = no word
    x = char_cnn(table[ids], options, weights)  # (T, n_f)
    for k in range(options["char_cnn"].get("n_highway") or 0):
        names = ("W_carry", "b_carry", "W_transform", "b_transform")
        x = highway(x, *(_float64(weights[f"CNN_high_{k}/{name}"]) for name in names))
    if "CNN_proj/W_proj" in weights:
        x = x @ _float64(weights["CNN_proj/W_proj"]) + _float64(weights["CNN_proj/b_proj"])
    return x


def char_cnn(x: np.ndarray, options: Options, weights: Weights) -> np.ndarray:
    """Character embeddings (T, C, d) -> (T, n_f): convolve, maximum over the positions, activation."""
    activations: dict[str, Callable[..., np.ndarray]] = {"relu": _relu, "tanh": np.tanh}
    activation = activations[options["char_cnn"]["activation"]]
    outputs = []
    for i, (width, _) in enumerate(options["char_cnn"]["filters"]):
        W = _float64(weights[f"CNN/W_cnn_{i}"])  # (1, width, d, count)
        b = _float64(weights[f"CNN/b_cnn_{i}"])  # (count,)
        positions = x.shape[1] - width + 1
        windows = np.stack([x[:, s : s + width].reshape(len(x), -1) for s in range(positions)], axis=1)
        y = windows @ W.reshape(-1, W.shape[-1]) + b  # (T, positions, count)
        outputs.append(activation(y.max(axis=1)))
    return np.concatenate(outputs, axis=1)


def highway(
    x: np.ndarray, W_carry: np.ndarray, b_carry: np.ndarray, W_transform: np.ndarray, b_transform: np.ndarray
) -> np.ndarray:
    """One highway layer; despite its name, "carry" gates the transformed part."""
    gate = _sigmoid(x @ W_carry + b_carry)
    return gate * _relu(x @ W_transform + b_transform) + (1 - gate) * x


# The two language models


def lstm_step(
    x: np.ndarray,
    c: np.ndarray,
    h: np.ndarray,
    *,
    W: np.ndarray,
    B: np.ndarray,
    W_P: np.ndarray | None = None,
    cell_clip: float | None = None,
    proj_clip: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """x (P,), c (D,), h (P,) -> the next c and h. Without a projection `W_P` (D == P), h is not clipped."""
    i, j, f, o = np.split(np.concatenate([x, h]) @ W + B, 4)
    c = _clip(_sigmoid(f + 1) * c + _sigmoid(i) * np.tanh(j), cell_clip)
    m = _sigmoid(o) * np.tanh(c)
    return c, m if W_P is None else _clip(m @ W_P, proj_clip)


def lstm(x: np.ndarray, c: np.ndarray, h: np.ndarray, **cell: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Runs `lstm_step` over x (T, P), in the order given -> every h (T, P), the last c, the last h."""
    outputs = []
    for x_t in x:
        c, h = lstm_step(x_t, c, h, **cell)
        outputs.append(h)
    return np.array(outputs), c, h


def bilm(x: np.ndarray, options: Options, weights: Weights, state: State | None = None) -> tuple[np.ndarray, State]:
    """Token vectors (T, P) -> the layers (L+1, T, 2P), forward half first, and the state left behind.

    Layer 0 is the token vector twice. The residual of the upper layers joins the output, not the state.
    """
    before = zero_state(options) if state is None else state
    after = zero_state(options)
    halves = []
    for direction, order in enumerate([slice(None), slice(None, None, -1)]):
        layer_input, layers = x[order], [x]
        for layer in range(options["lstm"]["n_layers"]):
            at = layer, direction
            output, after.cell[at], after.hidden[at] = lstm(
                layer_input, before.cell[at], before.hidden[at], **_cell(options, weights, layer, direction)
            )
            if layer > 0 and options["lstm"]["use_skip_connections"]:
                output = output + layer_input
            layers.append(output[order])
            layer_input = output
        halves.append(layers)
    return np.concatenate(halves, axis=-1), after


def zero_state(options: Options) -> State:
    """The state before the first batch."""
    L, D, P = (options["lstm"][key] for key in ("n_layers", "dim", "projection_dim"))
    return State(cell=np.zeros((L, 2, D)), hidden=np.zeros((L, 2, P)))


# Sentences and batches


def embed_sentence(
    words: Sequence[str],
    options: Options,
    weights: Weights,
    state: State | None = None,
    *,
    keep_boundaries: bool = False,
) -> tuple[np.ndarray, State]:
    """All layers (L+1, n, 2P) of n words, boundaries read and then stripped, and the state left behind."""
    ids = sentence_to_ids(words, options["char_cnn"].get("max_characters_per_token", 50))
    layers, state = bilm(token_vectors(ids, options, weights), options, weights, state)
    return layers if keep_boundaries else layers[:, 1:-1], state


def embed_batch(
    sentences: Sequence[Sequence[str]],
    options: Options,
    weights: Weights,
    states: Sequence[State] = (),
    *,
    keep_boundaries: bool = False,
) -> tuple[list[np.ndarray], list[State]]:
    """The layers of each sentence and the states for the next batch, matched by position.

    Rows beyond `states` start at zero; states beyond the batch are kept as they are.
    """
    after, layers = list(states), []
    for row, words in enumerate(sentences):
        before = states[row] if row < len(states) else None
        embedded, state = embed_sentence(words, options, weights, before, keep_boundaries=keep_boundaries)
        layers.append(embedded)
        after[row : row + 1] = [state]
    return layers, after


# Scalar mix


def scalar_mix(layers: np.ndarray, scalars: Sequence[float], gamma: float = 1.0) -> np.ndarray:
    """gamma * sum_k softmax(scalars)_k * layer_k: (L+1, n, 2P) -> (n, 2P)."""
    shares = np.exp(_float64(scalars) - np.max(scalars))
    return gamma * np.tensordot(shares / shares.sum(), layers, axes=1)


def normalise_tokens(layers: np.ndarray, eps: float = 1e-12) -> np.ndarray:
    """Layer norm of each token of each layer over its 2P features; no trained scale or shift."""
    mean, variance = layers.mean(axis=-1, keepdims=True), layers.var(axis=-1, keepdims=True)
    return (layers - mean) / np.sqrt(variance + eps)


def normalise_batch(batch: Sequence[np.ndarray], eps: float = 1e-12) -> list[np.ndarray]:
    """The references' layer norm: per layer one mean and variance over all tokens and features of the batch.

    AllenNLP includes the boundaries in the statistics (eps 1e-13), bilm-tf leaves them out (1e-12).
    """
    tokens = np.concatenate(batch, axis=1)  # (L+1, tokens of the batch, 2P)
    mean, variance = tokens.mean(axis=(1, 2), keepdims=True), tokens.var(axis=(1, 2), keepdims=True)
    return [(layers - mean) / np.sqrt(variance + eps) for layers in batch]


def _cell(options: Options, weights: Weights, layer: int, direction: int) -> dict[str, Any]:
    path = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
    return {
        "W": _float64(weights[f"{path}/W_0"]),  # (2P, 4D)
        "B": _float64(weights[f"{path}/B"]),  # (4D,)
        "W_P": _float64(weights[f"{path}/W_P_0"]) if f"{path}/W_P_0" in weights else None,  # (D, P)
        "cell_clip": options["lstm"].get("cell_clip"),
        "proj_clip": options["lstm"].get("proj_clip"),
    }


def _float64(values: Any) -> np.ndarray:
    return np.asarray(values, dtype=np.float64)


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return (1 + np.tanh(x / 2)) / 2  # 1 / (1 + exp(-x)), which would overflow


def _clip(x: np.ndarray, limit: float | None) -> np.ndarray:
    return np.clip(x, -limit, limit) if limit else x
