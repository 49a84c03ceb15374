"""A biLM with its softmax, read sentence by sentence: what both directions know at every word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hf_elmo import model_source
from hf_elmo.character_ids import BOS_WORD, EOS_WORD, words_to_character_ids
from hf_elmo.modeling_elmo import ElmoForPreTraining
from hf_elmo.tokenization_elmo import ElmoTokenizer


class LanguageModel(NamedTuple):
    """A model that predicts words, and what numbers them."""

    model: ElmoForPreTraining
    tokenizer: ElmoTokenizer


class Tops(NamedTuple):
    """The top layer's output of a batch of sentences with boundaries, from which neighbouring words are predicted.

    Attributes:
        forward: (B, T, P) having read up to each position; predicts the next word.
        backward: (B, T, P) having read down to each position; predicts the word before.
        lengths: words of each sentence, boundaries not counted; word i stands at position i + 1.
    """

    forward: Tensor
    backward: Tensor
    lengths: list[int]


def load_language_model(name: str | Path | None = None, *, revision: str | None = None) -> LanguageModel:
    """Load a model that has its softmax, in evaluation mode, with its vocabulary.

    Args:
        name: a folder, an id on the Hugging Face Hub, or None or "default" for the model that ships with the package.
        revision: branch, tag or commit of a model on the Hub.

    Raises:
        OSError: no such model.
        ValueError: no ELMo, damaged, without a softmax, or with another vocabulary than its softmax.
    """
    model, has_head = model_source.load_language_model(name, revision=revision)
    if not has_head:
        raise ValueError(
            f"{name}: got a model without its softmax over words (lm_head), so that it predicts none; expected the "
            "folder of a pretraining run (`hf-elmo pretrain`), what `hf-elmo publish --with-lm-head` makes of one, or "
            "a training checkpoint converted by `hf-elmo convert`."
        )
    tokenizer = ElmoTokenizer.from_pretrained(model_source.located(name), revision=revision or "main")
    if tokenizer.vocab_size != model.config.vocab_size:
        raise ValueError(
            f"{name}: got a vocabulary of {tokenizer.vocab_size:,} words and a softmax over "
            f"{model.config.vocab_size:,}; expected the tokenizer that the model was trained with."
        )
    return LanguageModel(model, tokenizer)


def word_ids(model: ElmoForPreTraining, tokenizer: ElmoTokenizer, words: Sequence[str]) -> list[int]:
    """The id of each word that the softmax predicts; that of `<UNK>` for all others."""
    found: Any = tokenizer.convert_tokens_to_ids(list(words))
    unknown: Any = model.config.unk_token_id
    # <pad> has no row in the softmax, nor have words that were added to the tokenizer.
    return [number if 0 < number < model.config.vocab_size else unknown for number in found]


def batches(lengths: Sequence[int], max_words: int) -> Iterator[list[int]]:
    """Indices of sentences of like length, as many as fit with their boundaries and padding."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if batch and (lengths[batch[0]] + 2) * (len(batch) + 1) > max_words:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def read(model: ElmoForPreTraining, sentences: Sequence[Sequence[str]]) -> Tops:
    """Read each sentence from its start, in the configured initial state, as one batch.

    The words can be spelled, see [`checked_words`][hf_elmo.text_input.checked_words].
    """
    lengths = list(map(len, sentences))
    words = [word for sentence in sentences for word in (BOS_WORD, *sentence, EOS_WORD)]
    rows = words_to_character_ids(words, max_characters_per_word=model.config.max_characters_per_word)
    mask = np.arange(max(lengths) + 2) < np.array(lengths)[:, None] + 2  # (B, T)
    character_ids = np.zeros((*mask.shape, rows.shape[1]), rows.dtype)  # (B, T, C)
    character_ids[mask] = rows
    device = next(model.parameters()).device
    output = model(torch.from_numpy(character_ids).to(device), torch.from_numpy(mask).to(device), return_dict=True)
    return Tops(output.forward_hidden_state, output.backward_hidden_state, lengths)
