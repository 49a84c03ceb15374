"""A character CNN in front of which stands a table of word vectors computed once."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hf_elmo.character_cnn import CharacterCNN
from hf_elmo.character_ids import words_to_character_ids
from hf_elmo.configuration_elmo import ElmoConfig

# What AllenNLP's vocabulary calls a word it does not know; such a word has characters of its own.
UNKNOWN_WORD = "@@UNKNOWN@@"
_WORDS_AT_ONCE = 1024


class CachedCharacterCNN(CharacterCNN):
    """Word ids of a closed vocabulary, or characters → word vectors.

    A cached word is named in place of its row of character ids by the negative of its id, see [`refer_to_words`]; all
    other rows are read as characters.  The parameters of the character CNN keep their names.

    Args:
        config: sizes.
        character_cnn: computes the table, and lends its values.
        words: by word id; the first one is padding, its vector zero.

    Shape:
        character_ids: (..., C) → (..., P)
    """

    def __init__(self, config: ElmoConfig, character_cnn: CharacterCNN, words: Sequence[str]) -> None:
        super().__init__(config)
        values = character_cnn.state_dict()
        self.load_state_dict({name: values[name] for name in self.state_dict()})
        self.to(character_cnn.embedding.weight)
        vectors = _vectors(character_cnn, words, config.max_characters_per_word)  # (words, P)
        self.word_embedding = nn.Embedding.from_pretrained(vectors, padding_idx=0)
        self.unknown = list(words).index(UNKNOWN_WORD) if UNKNOWN_WORD in words else None

    def forward(self, character_ids: Tensor) -> Tensor:
        """Vectors of words, each by itself."""
        word_ids = -character_ids[..., 0]
        named = word_ids > 0  # (...)
        vectors: Tensor = self.word_embedding(word_ids.clamp(min=0))  # (..., P)
        return vectors.masked_scatter(~named.unsqueeze(-1), super().forward(character_ids[~named]))

    def refer_to_words(self, character_ids: Tensor, word_ids: Tensor) -> Tensor:
        """Character ids in which every cached word is named instead of spelled, and padding is 0.

        The id of AllenNLP's unknown word, and ids outside the table, leave a word to its characters.

        Shape:
            character_ids (B, T, C), word_ids (B, T) → (B, T, C)

        Raises:
            ValueError: a negative word id, or a word that neither the table nor its characters give.
        """
        if (word_ids < 0).any():
            raise ValueError(f"word_inputs: got the id {int(word_ids.min())}; expected 0 for padding, or a word's id.")
        size = self.word_embedding.num_embeddings
        spelled = (character_ids > 0).any(dim=-1)  # (B, T)
        cached = word_ids < size
        if self.unknown is not None:
            cached = cached & ~((word_ids == self.unknown) & spelled)
        if (~cached & ~spelled).any():
            raise ValueError(
                f"word_inputs: got the id {int(word_ids.max())} at a word without character ids; expected an id below "
                f"{size}, the number of words in vocab_to_cache, or the word's characters in inputs."
            )
        named = torch.zeros_like(character_ids)
        named[..., 0] = -word_ids
        return torch.where(cached.unsqueeze(-1), named, character_ids)


@torch.no_grad()
def _vectors(character_cnn: CharacterCNN, words: Sequence[str], max_characters: int) -> Tensor:
    """(words, P), the first row 0."""
    rows = torch.from_numpy(words_to_character_ids(words, max_characters_per_word=max_characters))  # (words, C)
    weight = character_cnn.embedding.weight
    vectors = torch.cat([character_cnn(part.to(weight.device)) for part in rows.split(_WORDS_AT_ONCE)])
    vectors[0] = 0
    return vectors
