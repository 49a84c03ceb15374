"""A tiny model in the original's files, and what the oracle computes with it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.hf_elmo.models import original_files
from tests.oracles import numpy_elmo, random_weights

TOKEN_LAYER, FIRST_LAYER, TOP_LAYER = [1, -9e10, -9e10], [-9e10, 1, -9e10], [-9e10, -9e10, 1]
TOLERANCE = 1e-5


class Original:
    def __init__(
        self, options: Mapping[str, Any], weights: Mapping[str, np.ndarray], options_file: Path, weight_file: Path
    ) -> None:
        self.options, self.weights = options, weights
        self.options_file, self.weight_file = options_file, weight_file

    @property
    def files(self) -> tuple[str, str]:
        return str(self.options_file), str(self.weight_file)

    def layers(self, batch: Sequence[Sequence[str]], states: Any = (), *, keep_boundaries: bool = False) -> Any:
        """Per sentence (3, n, 2P) in float64, and the states left behind."""
        return numpy_elmo.embed_batch(batch, self.options, self.weights, states, keep_boundaries=keep_boundaries)

    def mix(self, sentence: Sequence[str], scalars: Sequence[float] = (0, 0, 0), gamma: float = 1.0) -> np.ndarray:
        (layers,), _ = self.layers([sentence])
        return numpy_elmo.scalar_mix(layers, scalars, gamma)


def write_original(folder: Path, *, seed: int = 0, name: str = "tiny") -> Original:
    folder.mkdir(parents=True, exist_ok=True)
    options = random_weights.options(name)
    weights = random_weights.random_weights(options, seed=seed)
    return Original(options, weights, *original_files(folder, options, weights))


def assert_close(got: Any, expected: Any, tolerance: float = TOLERANCE) -> None:
    got = got.detach().numpy() if hasattr(got, "detach") else got
    assert np.shape(got) == np.shape(expected)
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)
