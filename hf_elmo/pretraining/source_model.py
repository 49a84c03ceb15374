"""The model that an adaptation starts from: biLM, softmax and vocabulary, as far as it has them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers.utils import cached_file

from hf_elmo.model_source import is_shipped, load_language_model, located
from hf_elmo.modeling_elmo import ElmoForPreTraining
from hf_elmo.tokenization_elmo import ElmoTokenizer
from hf_elmo.vocabulary_file import SPECIAL_WORDS


@dataclass(frozen=True)
class SourceModel:
    """A model as it was loaded.

    Args:
        name: what the user called it.
        model: the biLM; its softmax has random values where `has_head` is False.
        tokenizer: of the same folder.
        has_head: whether the softmax was stored with the weights.
    """

    name: str
    model: ElmoForPreTraining
    tokenizer: ElmoTokenizer
    has_head: bool

    @property
    def vocabulary(self) -> list[str]:
        """Its words, `<S>`, `</S>`, `<UNK>` first, without the pad; often no more than these three."""
        return list(self.tokenizer.convert_ids_to_tokens(list(range(1, self.tokenizer.vocab_size))))

    @property
    def has_vocabulary(self) -> bool:
        """Whether it knows any word's id.  A model converted without a vocabulary file does not."""
        return len(self.vocabulary) > len(SPECIAL_WORDS)

    @property
    def shown_name(self) -> str:
        """For a person: a folder without the path to it."""
        if is_shipped(self.name):
            return "the model in hf_elmo"
        return Path(self.name).resolve().name if Path(self.name).is_dir() else self.name

    @property
    def hub_id(self) -> str | None:
        """Its id on the Hub, where it comes from there."""
        return None if is_shipped(self.name) or Path(self.name).is_dir() else self.name

    def file(self, name: str) -> Path | None:
        """A file that lies beside the weights; one on the Hub is fetched, unless it is in the cache."""
        found: str | None = cached_file(
            located(self.name),
            name,
            _raise_exceptions_for_gated_repo=False,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
        return None if found is None else Path(found)


def load_source_model(name: str, **changes: Any) -> SourceModel:
    """Load a folder, an id on the Hub, or `"default"`, the shipped model.

    Args:
        name: see above.
        changes: fields of the configuration that are to differ.

    Raises:
        OSError, ValueError: see `load_language_model`; a softmax without its vocabulary, or with that of another.
    """
    model, has_head = load_language_model(name, **changes)
    tokenizer = ElmoTokenizer.from_pretrained(located(name))
    loaded = SourceModel(name, model, tokenizer, has_head)
    length = model.config.max_characters_per_word
    if loaded.has_vocabulary and tokenizer.max_characters_per_word != length:
        raise ValueError(
            f"{name}: got a tokenizer of {tokenizer.max_characters_per_word} characters a word and a model of "
            f"{length}; expected those of one model."
        )
    if has_head and tokenizer.vocab_size != model.config.vocab_size:
        raise ValueError(
            f"{name}: got a tokenizer of {tokenizer.vocab_size} words and a softmax of {model.config.vocab_size}, "
            "<pad> included; expected both from one model (tokenizer.json or vocab.txt beside its weights)."
        )
    return loaded
