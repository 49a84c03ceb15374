"""Vectors in a folder of safetensors shards, with an index of what is where."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from hf_elmo.dump.parts import read_words

INDEX = "index.json"


class Shards:
    """A folder of shards, read a sentence at a time.

    Args:
        folder: made by `dump` or `hf-elmo embed`.

    Attributes:
        info: how it was made.

    Raises:
        OSError: there is no such folder.
        ValueError: its index is damaged.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        path = self.folder / INDEX
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such file; expected a folder made by `hf-elmo embed`.")
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            self.info: dict[str, Any] = content["info"]
            self._files = [self.folder / shard["file"] for shard in content["shards"]]
            self._firsts = [int(shard["first"]) for shard in content["shards"]]
            self._length = int(self.info["sentences"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: is damaged or no index of `hf-elmo embed` ({error}).") from error

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, sentence: int) -> np.ndarray:
        """Vectors of a sentence by its number.

        Shape:
            (n, 2P), or (k, n, 2P) with k layers
        """
        with safe_open(self._file(sentence), framework="np") as file:
            vectors: np.ndarray = file.get_tensor(str(sentence))
            return vectors

    def words(self, sentence: int) -> list[str]:
        """The words of a sentence."""
        first, sentences = read_words(self._file(sentence))
        return sentences[sentence - first]

    def _file(self, sentence: int) -> Path:
        if not 0 <= sentence < len(self):
            raise IndexError(f"sentence: got {sentence}; expected 0 to {len(self) - 1}.")
        return self._files[bisect_right(self._firsts, sentence) - 1]


def write_index(parts: Sequence[Path], path: Path, info: dict[str, Any]) -> None:
    """Write the index of parts that lie beside it."""
    shards = []
    for part in parts:
        first, sentences = read_words(part)
        shards.append(
            {"file": part.name, "first": first, "sentences": len(sentences), "words": sum(map(len, sentences))}
        )
    path.write_text(json.dumps({"info": info, "shards": shards}, indent=1) + "\n", encoding="utf-8")


def read_info(folder: Path) -> dict[str, Any] | None:
    """How a folder of shards was made, or None of another folder."""
    try:
        return Shards(folder).info
    except (OSError, ValueError):
        return None
