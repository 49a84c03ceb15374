"""Words in, vectors out: a stream of sentences through a frozen model."""

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from hf_elmo.character_ids import BOS_WORD, EOS_WORD, words_to_character_ids
from hf_elmo.modeling_elmo import ElmoModel

Layers = Literal["mix", "all"]


class ElmoEmbedder:
    """Computes the vectors of tokenised sentences with a model that is not being trained.

    A sentence's vectors depend on nothing but the sentence and the model.

    Args:
        model: put into evaluation mode.
        max_words_per_batch: bound on the positions of a batch, padding included; a longer sentence is a batch alone.
    """

    def __init__(self, model: ElmoModel, *, max_words_per_batch: int = 4096) -> None:
        if max_words_per_batch < 1:
            raise ValueError(f"max_words_per_batch: got {max_words_per_batch}; expected at least 1.")
        self.model = model.eval()
        self.max_words_per_batch = max_words_per_batch

    @torch.inference_mode()
    def embed(self, sentences: Iterable[Sequence[str]], *, layers: Layers = "mix") -> list[np.ndarray]:
        """Vectors of every word of every sentence, in the order given, without boundaries.

        Args:
            sentences: words as they are; the model adds nothing but the sentence boundaries.
            layers: `"mix"` for the scalar mix, `"all"` for every layer.

        Shape:
            per sentence of n words (n, 2P) float32, or (L + 1, n, 2P)

        Raises:
            ValueError: another `layers`; a word with a lone surrogate, named with its index and sentence.
            TypeError: a word that is no string, or a sentence given as one string.
        """
        if layers not in get_args(Layers):
            raise ValueError(f"layers: got {layers!r}; expected one of {', '.join(map(repr, get_args(Layers)))}.")
        rows = [self._character_ids(number, sentence) for number, sentence in enumerate(sentences)]
        vectors: list[np.ndarray] = [np.empty(0)] * len(rows)
        for batch in self._batches([len(row) for row in rows]):
            for index, vector in zip(batch, self._forward([rows[i] for i in batch], layers), strict=True):
                vectors[index] = vector
        return vectors

    def _character_ids(self, number: int, sentence: Sequence[str]) -> np.ndarray:
        """(n + 2, C) with boundaries."""
        if isinstance(sentence, str):
            raise TypeError(f"sentence {number}: got the string {sentence!r}; expected a list of words.")
        length = self.model.config.max_characters_per_word
        try:
            words = words_to_character_ids(sentence, max_characters_per_word=length)
        except (TypeError, ValueError) as error:
            raise type(error)(f"sentence {number}: {error}") from error
        begin, end = words_to_character_ids([BOS_WORD, EOS_WORD], max_characters_per_word=length)
        return np.concatenate([begin[None], words, end[None]])

    def _batches(self, lengths: Sequence[int]) -> Iterable[list[int]]:
        """Indices of sentences of similar length, as many as fit."""
        batch: list[int] = []
        for index in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
            longest = lengths[batch[0]] if batch else lengths[index]
            if batch and longest * (len(batch) + 1) > self.max_words_per_batch:
                yield batch
                batch = []
            batch.append(index)
        if batch:
            yield batch

    def _forward(self, rows: Sequence[np.ndarray], layers: Layers) -> list[np.ndarray]:
        character_ids = torch.nn.utils.rnn.pad_sequence([torch.from_numpy(row) for row in rows], batch_first=True)
        mask = _length_mask([len(row) for row in rows])  # (B, T)
        device = self.model.device
        output = self.model(
            character_ids.to(device), mask.to(device), output_hidden_states=layers == "all", return_dict=True
        )
        # (B, L + 1, T, 2P) or (B, T, 2P)
        computed = torch.stack(output.hidden_states, dim=1) if layers == "all" else output.last_hidden_state
        vectors = computed.float().cpu().numpy()
        return [vectors[i, ..., 1 : len(row) - 1, :].copy() for i, row in enumerate(rows)]


def _length_mask(lengths: Sequence[int]) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
