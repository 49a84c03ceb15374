"""The task heads on static word vectors instead of ELMo: what a result with ELMo is to be compared with.

The networks are the heads' own; only what they read differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn

from hf_elmo.character_ids import words_to_character_ids
from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.modeling_elmo import ElmoModelOutput, words_of
from hf_elmo.question_answering import ElmoForQuestionAnswering
from hf_elmo.sequence_classification import ElmoForSequenceClassification
from hf_elmo.token_classification import ElmoForTokenClassification

# Of the hash of a word's characters: odd, and most of 64 bits (of the golden ratio).
_MULTIPLIER = 0x1E3779B97F4A7C15


@strict
class BaselineConfig(ElmoConfig):
    """Configuration of a head on static word vectors; of ELMo's options only those of the head act.

    Args:
        num_words: how many words have a vector of their own.
        word_vector_size: width of the vectors.
    """

    model_type = "elmo_baseline"

    num_words: int = 1
    word_vector_size: int = 100

    @property
    def hidden_size(self) -> int:
        """Width of the vectors."""
        return self.word_vector_size


class WordEmbeddings(nn.Module):
    """One trained vector for each of a list of words, and one for all others, in the place of ELMo.

    Words come as character ids, as ELMo reads them, and are told apart by a hash of 64 bits.

    Args:
        config: `num_words` and `word_vector_size` are read here.
    """

    hashes: Tensor

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__()
        self.max_characters_per_word = config.max_characters_per_word
        self.register_buffer("hashes", torch.zeros(config.num_words, dtype=torch.int64))  # rising
        self.embedding = nn.Embedding(config.num_words + 1, config.word_vector_size)  # the last: other words

    @torch.no_grad()
    def set_words(self, words: Sequence[str], vectors: Tensor) -> None:
        """Give words their vectors; that of all others is 0.

        Shape:
            words N distinct ones, vectors (N, word_vector_size)
        """
        rows = words_to_character_ids(words, max_characters_per_word=self.max_characters_per_word)
        hashes = _hashes(torch.from_numpy(rows))  # (N,)
        self.hashes.copy_(hashes.sort().values)
        self.embedding.weight[:-1] = vectors[hashes.argsort()]
        self.embedding.weight[-1].zero_()

    def forward(self, character_ids: Tensor, attention_mask: Tensor | None = None, **kwargs: Any) -> ElmoModelOutput:
        """Shape: character_ids (B, T, C), attention_mask (B, T) → last_hidden_state (B, T, word_vector_size)."""
        hashes = _hashes(character_ids)  # (B, T)
        rows = torch.searchsorted(self.hashes, hashes).clamp(max=len(self.hashes) - 1)
        rows = torch.where(self.hashes[rows] == hashes, rows, len(self.hashes))
        vectors = self.embedding(rows) * words_of(character_ids, attention_mask).unsqueeze(-1)
        return ElmoModelOutput(last_hidden_state=vectors)


class BaselineForTokenClassification(ElmoForTokenClassification):
    """`ElmoForTokenClassification` on static word vectors."""

    config_class = BaselineConfig
    vectors_class = WordEmbeddings


class BaselineForSequenceClassification(ElmoForSequenceClassification):
    """`ElmoForSequenceClassification` on static word vectors."""

    config_class = BaselineConfig
    vectors_class = WordEmbeddings


class BaselineForQuestionAnswering(ElmoForQuestionAnswering):
    """`ElmoForQuestionAnswering` on static word vectors."""

    config_class = BaselineConfig
    vectors_class = WordEmbeddings


def _hashes(character_ids: Tensor) -> Tensor:
    """Shape: character_ids (..., C) → (...)."""
    hashes = torch.zeros(character_ids.shape[:-1], dtype=torch.int64, device=character_ids.device)
    for column in character_ids.unbind(dim=-1):  # arithmetic modulo 2⁶⁴
        hashes = (hashes ^ (hashes >> 29)) * _MULTIPLIER + column + 1
    return hashes
