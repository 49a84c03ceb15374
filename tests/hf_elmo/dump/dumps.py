"""A model whose vectors NumPy knows, sentences, and readers of every format that use nothing of the package."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet as pq
from safetensors import safe_open

from hf_elmo.dump import DumpOptions
from tests.oracles import numpy_elmo, random_weights

OPTIONS = random_weights.options("tiny")
WEIGHTS = random_weights.random_weights(OPTIONS, seed=5)
WIDTH = 32  # 2P

SENTENCES = [
    ["The", "dog", "let", "out", "a", "sharp", "bark", "."],
    ["naïve", "東京"],
    [],
    ["<S>", "x" * 70, "</S>", "<UNK>"],
    ["Hello", "!"],
    ["The", "dog", "let", "out", "a", "sharp", "bark", "."],
    ["one"],
]
NAMES = {"hdf5": "vectors.hdf5", "parquet": "vectors.parquet", "safetensors": "vectors"}
FORMATS = tuple(NAMES)
# Bytes per word of one float32 layer: 128; the largest sentence has eight words.
SMALL_PARTS = DumpOptions(part_megabytes=0.0015)

CHOOSE: dict[Any, Callable[[np.ndarray], np.ndarray]] = {
    "all": lambda layers: layers,
    "top": lambda layers: layers[-1],
    "average": lambda layers: layers.mean(axis=0),
    "mix": lambda layers: numpy_elmo.scalar_mix(layers, [0.0, 0.0, 0.0]),
    (0, 2): lambda layers: layers[[0, 2]],
    (1,): lambda layers: layers[[1]],
}


def expected(sentences: Sequence[Sequence[str]], layers: Any) -> list[np.ndarray]:
    return [CHOOSE[layers](numpy_elmo.embed_sentence(words, OPTIONS, WEIGHTS)[0]) for words in sentences]


def many_sentences(count: int) -> list[list[str]]:
    rng = np.random.default_rng(count)
    return [[f"w{word}" for word in rng.integers(0, 50, rng.integers(0, 9))] for _ in range(count)]


def text_of(sentences: Sequence[Sequence[str]]) -> str:
    return "".join(" ".join(words) + "\n" for words in sentences)


def read_back(path: Path) -> list[tuple[list[str] | None, np.ndarray]]:
    """Words, where the format has them by number, and vectors, sentence by sentence."""
    if path.is_dir():
        return _read_shards(path)
    if path.suffix == ".parquet":
        rows = pq.read_table(path).to_pylist()
        dtype = pq.read_schema(path).field("vectors").type.value_type.to_pandas_dtype()
        assert [row["sentence"] for row in rows] == list(range(len(rows)))
        return [(row["words"], np.array(row["vectors"], dtype).reshape(row["shape"])) for row in rows]
    with h5py.File(path) as file:
        count = len(set(file) - {"sentence_to_index"})
        return [(None, file[str(number)][()]) for number in range(count)]


def _read_shards(path: Path) -> list[tuple[list[str] | None, np.ndarray]]:
    result: list[tuple[list[str] | None, np.ndarray]] = []
    index = json.loads((path / "index.json").read_text(encoding="utf-8"))
    assert {shard["file"] for shard in index["shards"]} == {file.name for file in path.glob("*.safetensors")}
    for shard in index["shards"]:
        with safe_open(path / shard["file"], "np") as file:
            assert set(file.keys()) == {str(shard["first"] + i) for i in range(shard["sentences"])}
            words = json.loads(file.metadata()["hf_elmo"])["words"]
            assert len(result) == shard["first"]
            result += [(words[i], file.get_tensor(str(shard["first"] + i))) for i in range(shard["sentences"])]
    return result


def contents(path: Path) -> dict[str, bytes]:
    """Every byte of a dump."""
    if path.is_file():
        return {"": path.read_bytes()}
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
