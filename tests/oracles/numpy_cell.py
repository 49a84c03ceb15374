"""The LSTM cell in plain NumPy, in float64, from gates before their activations (the forget gate's bias is in them)."""

import numpy as np


def step(gates: np.ndarray, cell: np.ndarray, clip: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Gates (n, 4D) in the order i, j, f, o and cell (n, D) -> the next cell and what the projection reads."""
    width = cell.shape[1]
    i, j, f, o = (gates[:, k * width : (k + 1) * width].astype(np.float64) for k in range(4))
    new = _sigmoid(f) * cell.astype(np.float64) + _sigmoid(i) * np.tanh(j)
    if clip is not None:
        new = np.minimum(np.maximum(new, -clip), clip)  # both keep NaN
    return new, _sigmoid(o) * np.tanh(new)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return (1 + np.tanh(x / 2)) / 2
