import builtins
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hf_elmo.convert.hdf5 import read_hdf5
from hf_elmo.convert.options_json import read_options
from tests.hf_elmo.models import original_files
from tests.oracles import random_weights

OPTIONS = random_weights.options("tiny")
WEIGHTS = random_weights.random_weights(OPTIONS, seed=0)
CELL = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"


def _read(folder: Path, weights: dict[str, np.ndarray]) -> Any:
    options, file = original_files(folder, OPTIONS, weights)
    return read_hdf5(file, read_options(options))


def test_values_are_those_of_the_file(tmp_path: Path) -> None:
    """Forget bias and carry sign included: what the reference adds while it loads, the model adds while it runs."""
    parameters = _read(tmp_path, WEIGHTS)
    np.testing.assert_array_equal(parameters["layers.1.backward_lstm.gates.bias"], WEIGHTS[f"{CELL}/B"])
    np.testing.assert_array_equal(parameters["layers.1.backward_lstm.gates.weight"], WEIGHTS[f"{CELL}/W_0"].T)
    np.testing.assert_array_equal(parameters["character_cnn.highways.0.carry.bias"], WEIGHTS["CNN_high_0/b_carry"])
    np.testing.assert_array_equal(parameters["character_cnn.embedding.weight"][1:], WEIGHTS["char_embed"])
    assert not parameters["character_cnn.embedding.weight"][0].any()


def _without(name: str) -> dict[str, np.ndarray]:
    return {key: value for key, value in WEIGHTS.items() if key != name}


def _poisoned(value: float) -> dict[str, np.ndarray]:
    broken = WEIGHTS["CNN_proj/W_proj"].copy()
    broken[3, 4] = value
    return {**WEIGHTS, "CNN_proj/W_proj": broken}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (_without(f"{CELL}/W_P_0"), f"missing {CELL}/W_P_0"),
        ({**WEIGHTS, "lm/extra": np.zeros(3, np.float32)}, "not expected lm/extra"),
        (
            {**WEIGHTS, f"{CELL}/W_0": WEIGHTS[f"{CELL}/W_0"].T},
            rf"dataset {CELL}/W_0: got shape \(256, 32\); expected \(32, 256\)",
        ),
        (
            {**WEIGHTS, "char_embed": np.zeros((262, 4), np.float32)},
            r"got shape \(262, 4\); expected \(261, 4\)",
        ),
        ({**WEIGHTS, "CNN/b_cnn_0": np.zeros(4, np.float64)}, "CNN/b_cnn_0: got numbers of type float64"),
        (_poisoned(np.nan), "CNN_proj/W_proj: got 1 values that are NaN or infinite"),
        (_poisoned(np.inf), "CNN_proj/W_proj: got 1 values that are NaN or infinite"),
    ],
)
def test_what_is_wrong_is_named(weights: dict[str, np.ndarray], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        _read(tmp_path, weights)


def test_another_models_options_are_noticed(tmp_path: Path) -> None:
    options, file = original_files(tmp_path, random_weights.options("tiny", dim=32), WEIGHTS)
    with pytest.raises(ValueError, match="belong to the same model"):
        read_hdf5(file, read_options(options))


def _cut(share: float) -> Callable[[bytes], bytes]:
    return lambda content: content[: int(len(content) * share)]


@pytest.mark.parametrize("damage", [_cut(0.0), _cut(0.001), _cut(0.5), _cut(0.99), lambda content: b"PK" + content])
def test_a_damaged_file_is_refused(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    options, file = original_files(tmp_path, OPTIONS, WEIGHTS)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises((OSError, ValueError), match=str(file)):
        read_hdf5(file, read_options(options))


def test_a_compressed_dataset_with_damaged_bytes_is_refused(tmp_path: Path) -> None:
    options, file = original_files(tmp_path, OPTIONS, _without("char_embed"))
    with h5py.File(file, "a") as weights:
        stored = weights.create_dataset("char_embed", data=WEIGHTS["char_embed"], compression="gzip")
        place = stored.id.get_chunk_info(0).byte_offset
    content = bytearray(file.read_bytes())
    content[place : place + 20] = b"\xff" * 20
    file.write_bytes(content)
    with pytest.raises(ValueError, match="dataset char_embed: cannot be read"):
        read_hdf5(file, read_options(options))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    options, file = original_files(tmp_path, OPTIONS, WEIGHTS)
    file.unlink()
    with pytest.raises(FileNotFoundError, match=str(file)):
        read_hdf5(file, read_options(options))


def test_without_h5py_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def no_h5py(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "h5py":
            raise ImportError("No module named 'h5py'")
        return real_import(name, *args, **kwargs)

    options, file = original_files(tmp_path, OPTIONS, WEIGHTS)
    config = read_options(options)
    monkeypatch.setattr(builtins, "__import__", no_h5py)
    with pytest.raises(ImportError, match=r"spacy-elmo\[convert\]"):
        read_hdf5(file, config)


def test_flipped_bytes_never_end_in_another_kind_of_error(tmp_path: Path) -> None:
    """Damage in the file's tables rather than in its numbers; where it hits padding the file is still good."""
    options, file = original_files(tmp_path, OPTIONS, WEIGHTS)
    config, content = read_options(options), file.read_bytes()
    rng, refused = np.random.default_rng(0), 0
    for _ in range(60):
        damaged = bytearray(content)
        for place in rng.integers(8, 4000, 5):
            damaged[place] = rng.integers(0, 256)
        file.write_bytes(damaged)
        try:
            read_hdf5(file, config)
        except (OSError, ValueError) as error:
            refused += 1
            assert str(file) in str(error)  # noqa: PT017
    assert refused > 10
