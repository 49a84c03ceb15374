"""What a task's network reads of each sentence: character ids, a row of static vectors, the biLM's frozen layers."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from experiments.readers.static_vectors import StaticVectors
from experiments.resources import Resources
from hf_elmo.character_ids import BOS_WORD, EOS_WORD, words_to_character_ids


class SentenceFeatures:
    """Features of sentences, found again by the character ids of their words.

    The heads hand on nothing but character ids, so these are the key.  Words that are spelled alike after the cut to
    `max_characters_per_word` are alike to the biLM too.

    Args:
        sentences: words without boundaries.
        resources: compute the layers.
        vectors: static vectors, or None.
        elmo: whether the biLM's layers are wanted.
        max_characters_per_word: C.
    """

    def __init__(
        self,
        sentences: Sequence[Sequence[str]],
        resources: Resources,
        *,
        vectors: StaticVectors | None,
        elmo: bool,
        max_characters_per_word: int,
    ) -> None:
        self.length = max_characters_per_word
        distinct = list(dict.fromkeys(tuple(sentence) for sentence in sentences))
        keys = [self.character_ids(sentence).tobytes() for sentence in distinct]
        ends = np.cumsum([0, *(len(sentence) + 2 for sentence in distinct)])
        self._places = {key: slice(a, b) for key, a, b in zip(keys, ends[:-1], ends[1:], strict=True)}
        self._rows = np.zeros(ends[-1], dtype=np.int64)
        self._vectors = None if vectors is None else vectors.vectors
        if vectors is not None:
            for sentence, key in zip(distinct, keys, strict=True):
                self._rows[self._places[key]][1:-1] = vectors.rows(list(sentence))
        self._layers: NDArray[np.float16] | None = None  # (words and boundaries, L + 1, 2P)
        if elmo:
            self._fill(distinct, keys, resources, int(ends[-1]))

    @property
    def vectors_size(self) -> int:
        """Width of the static vectors; 0 where there are none."""
        return 0 if self._vectors is None else self._vectors.shape[1]

    @property
    def layers_shape(self) -> tuple[int, int]:
        """Number and width of the biLM's layers; (0, 0) where there are none."""
        return (0, 0) if self._layers is None else (self._layers.shape[1], self._layers.shape[2])

    def character_ids(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Shape: a sentence of n words → (n + 2, C), with its boundaries."""
        return words_to_character_ids([BOS_WORD, *words, EOS_WORD], max_characters_per_word=self.length)

    def look_up(self, character_ids: Tensor, mask: Tensor) -> tuple[Tensor | None, list[Tensor]]:
        """Static vectors and layers of a batch; zeros at padding and boundaries.

        Shape:
            character_ids (B, T, C), mask (B, T) bool, True at words and boundaries, on the left → (B, T, V) or None,
            L + 1 tensors (B, T, 2P)

        Raises:
            KeyError: a sentence that was not handed in.
        """
        rows = character_ids.cpu().numpy()
        lengths = mask.sum(dim=1).tolist()
        places = [self._places[row[:length].tobytes()] for row, length in zip(rows, lengths, strict=True)]
        shape, device = mask.shape, character_ids.device
        vectors = None
        if self._vectors is not None:
            numbers = np.zeros(shape, dtype=np.int64)  # (B, T)
            for row, place, length in zip(numbers, places, lengths, strict=True):
                row[:length] = self._rows[place]
            vectors = torch.from_numpy(self._vectors[numbers]).to(device)  # (B, T, V)
        if self._layers is None:
            return vectors, []
        layers = np.zeros((*shape, *self.layers_shape), dtype=np.float32)  # (B, T, L + 1, 2P)
        for sentence, place, length in zip(layers, places, lengths, strict=True):
            sentence[:length] = self._layers[place]
        return vectors, list(torch.from_numpy(layers).to(device).unbind(dim=2))

    def _fill(self, sentences: list[tuple[str, ...]], keys: list[bytes], resources: Resources, size: int) -> None:
        for key, layers in zip(keys, resources.layers(sentences), strict=True):
            if self._layers is None:
                self._layers = np.zeros((size, layers.shape[0], layers.shape[2]), dtype=np.float16)
            self._layers[self._places[key]][1:-1] = layers.transpose(1, 0, 2)  # (n, L + 1, 2P)
