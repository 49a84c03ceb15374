"""Tokenised sentences to the tensor of character ids that `Elmo` reads."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from hf_elmo.character_ids import DEFAULT_MAX_CHARACTERS, Surrogates, words_to_character_ids


def batch_to_ids(batch: Sequence[Sequence[str]], *, max_characters_per_word: int = DEFAULT_MAX_CHARACTERS) -> Tensor:
    """The character ids of a batch of tokenised sentences, without sentence boundaries.

    Lone surrogates are left out of a word, as in the reference; everywhere else they are an error.

    Args:
        batch: sentences, each a list of words.
        max_characters_per_word: C; all published models have 50.

    Shape:
        B sentences of at most T words → (B, T, C) int64, 0 after a sentence's end

    Raises:
        TypeError: a sentence given as one string, or a word that is no string.
    """
    return sentences_to_ids(batch, max_characters_per_word=max_characters_per_word, surrogates="drop")


def sentences_to_ids(batch: Sequence[Sequence[str]], *, max_characters_per_word: int, surrogates: Surrogates) -> Tensor:
    """`batch_to_ids` with a choice of what a lone surrogate is; errors name sentence and word.

    Shape:
        (B, T, C) int64
    """
    if isinstance(batch, str | bytes):
        raise TypeError(f"batch: got the string {batch!r}; expected a list of sentences, each a list of words.")
    rows = []  # B × (words, C)
    for number, sentence in enumerate(batch):
        try:
            words = words_to_character_ids(
                sentence, max_characters_per_word=max_characters_per_word, surrogates=surrogates
            )
        except (TypeError, ValueError) as error:
            raise type(error)(f"sentence {number}: {error}") from error
        rows.append(torch.from_numpy(words))
    if not rows:
        return torch.zeros(0, 0, max_characters_per_word, dtype=torch.long)
    return pad_sequence(rows, batch_first=True)
