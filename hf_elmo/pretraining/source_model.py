"""The model that an adaptation starts from: biLM, softmax and vocabulary, as far as it has them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_elmo.model_source import default_model_path, load_language_model
from hf_elmo.modeling_elmo import ElmoForPreTraining
from hf_elmo.tokenization_elmo import ElmoTokenizer
from hf_elmo.vocabulary_file import SPECIAL_WORDS

SHIPPED = "default"


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
        if source_name(self.name) is None:
            return "the model in hf_elmo"
        return Path(self.name).resolve().name if Path(self.name).is_dir() else self.name

    @property
    def hub_id(self) -> str | None:
        """Its id on the Hub, where it comes from there."""
        return None if source_name(self.name) is None or Path(self.name).is_dir() else self.name


def source_name(name: str) -> str | None:
    """`name` itself, or None, for the shipped model, where it is "default" and no folder of that name is there."""
    return None if name == SHIPPED and not Path(name).is_dir() else name


def load_source_model(name: str, **changes: Any) -> SourceModel:
    """Load a folder, an id on the Hub, or `"default"`, the shipped model.

    Args:
        name: see above.
        changes: fields of the configuration that are to differ.

    Raises:
        OSError, ValueError: see `load_language_model`; a softmax without its vocabulary, or with that of another.
    """
    source = source_name(name)
    model, has_head = load_language_model(source, **changes)
    tokenizer = ElmoTokenizer.from_pretrained(source or str(default_model_path()))
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
