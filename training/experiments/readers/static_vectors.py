"""Static word vectors in word2vec's text format."""

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


class StaticVectors:
    """One vector for each word; zeros for a word that has none.

    Args:
        path: a line "count width", then a word and its numbers a line; plain or .gz.

    Raises:
        ValueError: a line of another length.
    """

    def __init__(self, path: Path) -> None:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            count, width = map(int, next(file).split())
            self.vectors = np.zeros((count + 1, width), dtype=np.float32)  # (count + 1, width), row 0 of no word
            self._rows: dict[str, int] = {}
            for row, line in enumerate(file, start=1):
                word, _, numbers = line.rstrip("\n").partition(" ")
                values = np.fromstring(numbers, dtype=np.float32, sep=" ")
                if values.shape != (width,):
                    raise ValueError(f"{path}, line {row + 1}: got {len(values)} numbers; expected {width}.")
                self.vectors[row] = values
                self._rows[word] = row

    def rows(self, words: list[str]) -> NDArray[np.int64]:
        """Each word's row of `vectors`, as it is written or else in lower case; 0 where there is none."""
        return np.array([self._rows.get(word) or self._rows.get(word.lower(), 0) for word in words], dtype=np.int64)
