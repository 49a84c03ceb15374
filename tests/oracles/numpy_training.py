"""One training step's loss and gradient of a biLM in plain NumPy, derived by hand: float64, one sequence at a time.

From the token vectors on (the character CNN is `numpy_elmo`'s): per direction a stack of LSTMs with clips and a
projection, a skip connection from the second layer on, dropout by given masks, and the sampled softmax. Imports
nothing but NumPy. In the shapes below T counts the words of a sequence in reading order, P is the projection, D the
LSTM cell, L the layers and V the words of the softmax.

A mask is what dropout multiplies by: 0 where it drops, 1 / (1 - p) elsewhere.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

Gradients = dict[str, np.ndarray]


class Cell(NamedTuple):
    """Weights of an LSTM layer in the layout of the published files: W (2P, 4D), B (4D,), W_P (D, P)."""

    W: np.ndarray
    B: np.ndarray
    W_P: np.ndarray


class Softmax(NamedTuple):
    """W (V, P), b (V,), and the classes (n,) that are drawn as negatives in `tries` draws."""

    W: np.ndarray
    b: np.ndarray
    negatives: np.ndarray
    tries: int


class Clips(NamedTuple):
    """Bounds on the cell and on the projected output."""

    cell: float
    projection: float


def direction_loss(
    x: np.ndarray,
    targets: np.ndarray,
    masks: Sequence[np.ndarray],
    *,
    cells: Sequence[Cell],
    softmax: Softmax,
    clips: Clips,
    states: Sequence[tuple[np.ndarray, np.ndarray]] | None = None,
) -> tuple[float, Gradients]:
    """Summed loss of one direction over one sequence, and the gradient of that sum.

    x (T, P) token vectors in reading order; targets (T,) rows of the softmax, -1 for none; masks L + 1 times (T, P):
    for the input of each layer, and for what the softmax reads; states per layer c (D,), h (P,), zero by default.
    The gradients are named x, W0, B0, W_P0, W1, .., softmax_W, softmax_b.
    """
    inputs, tapes, out = [], [], x
    for layer, cell in enumerate(cells):
        layer_input = masks[layer] * out
        c, h = states[layer] if states is not None else (np.zeros(len(cell.W_P)), np.zeros(x.shape[1]))
        hiddens, tape = _lstm_forward(layer_input, c, h, cell, clips)
        out = hiddens + layer_input if layer > 0 else hiddens
        inputs.append(layer_input)
        tapes.append(tape)
    top = masks[-1] * out
    loss, d_top, gradients = _softmax_step(top, targets, softmax)
    d_out = masks[-1] * d_top
    for layer in reversed(range(len(cells))):
        d_input, of_cell = _lstm_backward(d_out, inputs[layer], tapes[layer], cells[layer], clips)
        gradients |= {f"{name}{layer}": value for name, value in of_cell.items()}
        if layer > 0:
            d_input = d_input + d_out
        d_out = masks[layer] * d_input
    return loss, {**gradients, "x": d_out}


def log_expected_count(classes: np.ndarray, num_classes: int, tries: int) -> np.ndarray:
    """ln Q(k), Q = 1 - (1 - p)^tries, p(k) = (ln(k+2) - ln(k+1)) / ln(V+1)."""
    p = (np.log(classes + 2.0) - np.log(classes + 1.0)) / np.log(num_classes + 1.0)
    return np.log(1 - (1 - p) ** tries)


def _softmax_step(x: np.ndarray, targets: np.ndarray, softmax: Softmax) -> tuple[float, np.ndarray, Gradients]:
    loss, d_x = 0.0, np.zeros_like(x)
    d_W, d_b = np.zeros_like(softmax.W), np.zeros_like(softmax.b)
    for t, target in enumerate(targets):
        if target < 0:
            continue
        candidates = np.array([target, *(k for k in softmax.negatives if k != target)])
        logits = softmax.W[candidates] @ x[t] + softmax.b[candidates]
        logits = logits - log_expected_count(candidates, len(softmax.b), softmax.tries)
        probabilities = np.exp(logits - logits.max())
        probabilities /= probabilities.sum()
        loss -= np.log(probabilities[0])
        d_logits = probabilities - (np.arange(len(candidates)) == 0)
        d_x[t] = d_logits @ softmax.W[candidates]
        d_W[candidates] += np.outer(d_logits, x[t])
        d_b[candidates] += d_logits
    return loss, d_x, {"softmax_W": d_W, "softmax_b": d_b}


def _lstm_forward(
    x: np.ndarray, c: np.ndarray, h: np.ndarray, cell: Cell, clips: Clips
) -> tuple[np.ndarray, list[dict[str, Any]]]:
    hiddens, tape = [], []
    for x_t in x:
        i, j, f, o = np.split(np.concatenate([x_t, h]) @ cell.W + cell.B, 4)
        step = {"c": c, "h": h, "i": _sigmoid(i), "j": np.tanh(j), "f": _sigmoid(f + 1), "o": _sigmoid(o)}
        step["free_c"] = step["f"] * c + step["i"] * step["j"]
        c = np.clip(step["free_c"], -clips.cell, clips.cell)
        step["tanh"] = np.tanh(c)
        step["m"] = step["o"] * step["tanh"]
        step["free_h"] = step["m"] @ cell.W_P
        h = np.clip(step["free_h"], -clips.projection, clips.projection)
        hiddens.append(h)
        tape.append(step)
    return np.array(hiddens), tape


def _lstm_backward(
    d_hiddens: np.ndarray, x: np.ndarray, tape: Sequence[dict[str, Any]], cell: Cell, clips: Clips
) -> tuple[np.ndarray, Gradients]:
    d_W, d_B, d_W_P, d_x = (np.zeros_like(values) for values in (*cell, x))
    d_c, d_h = np.zeros(len(cell.W_P)), np.zeros(x.shape[1])
    for t in reversed(range(len(x))):
        step = tape[t]
        d_free_h = (d_hiddens[t] + d_h) * (abs(step["free_h"]) < clips.projection)
        d_W_P += np.outer(step["m"], d_free_h)
        d_m = cell.W_P @ d_free_h
        d_c = d_c + d_m * step["o"] * (1 - step["tanh"] ** 2)
        d_free_c = d_c * (abs(step["free_c"]) < clips.cell)
        d_z = np.concatenate(
            [
                d_free_c * step["j"] * step["i"] * (1 - step["i"]),
                d_free_c * step["i"] * (1 - step["j"] ** 2),
                d_free_c * step["c"] * step["f"] * (1 - step["f"]),
                d_m * step["tanh"] * step["o"] * (1 - step["o"]),
            ]
        )
        d_W += np.outer(np.concatenate([x[t], step["h"]]), d_z)
        d_B += d_z
        d_x[t], d_h = np.split(cell.W @ d_z, 2)
        d_c = d_free_c * step["f"]
    return d_x, {"W": d_W, "B": d_B, "W_P": d_W_P}


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return (1 + np.tanh(x / 2)) / 2
