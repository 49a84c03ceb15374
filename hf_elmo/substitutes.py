"""What could stand in a word's place, by the words on both sides of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hf_elmo.language_model import Tops, read, word_ids
from hf_elmo.modeling_elmo import ElmoForPreTraining
from hf_elmo.sampled_softmax import log_uniform_probability
from hf_elmo.text_input import checked_words
from hf_elmo.tokenization_elmo import ElmoTokenizer

# Positions whose distribution over all words is in memory at once.
_POSITIONS_PER_CHUNK = 64


class Substitute(NamedTuple):
    """A word that could stand there.

    Attributes:
        word: of the vocabulary.
        score: by which substitutes are ranked.
        forward, backward: its log-probability (natural) given the words before, and given those after.
    """

    word: str
    score: float
    forward: float
    backward: float


def substitutes(
    model: ElmoForPreTraining,
    tokenizer: ElmoTokenizer,
    words: Sequence[str],
    index: int,
    top: int = 10,
    *,
    unigram_weight: float = 0.0,
    log_frequencies: Tensor | None = None,
) -> list[Substitute]:
    r"""The best substitutes of a word in its sentence, best first.

    .. math:: s(v) = \ln p(v \mid \text{<S>}, w_1 … w_{i-1}) + \ln p(v \mid w_{i+1} … w_n, \text{</S>}) - λ \ln p(v)

    With λ = 0 this ranks by the product of two experts, up to a constant.  Where the two sides are independent given
    the word, Bayes' rule gives λ = 1, which takes back that both count the word's frequency.  The word itself, `<S>`,
    `</S>` and `<UNK>` are no substitutes.

    Args:
        model: with its softmax, in evaluation mode.
        tokenizer: the model's.
        words: the sentence.
        index: of the word, from 0 on; the word itself is not read.
        top: how many.
        unigram_weight: λ.
        log_frequencies: ln p(v) of every word in the order of the vocabulary file; by default estimated by rank, with
            the distribution from which the sampled softmax draws.

    Shape:
        log_frequencies (V,)

    Raises:
        IndexError: no such word.
        ValueError: an option out of range, a model in training mode, or a word with a lone surrogate.
    """
    (found,) = sentence_substitutes(
        model, tokenizer, words, [index], top, unigram_weight=unigram_weight, log_frequencies=log_frequencies
    )
    return found


@torch.inference_mode()
def sentence_substitutes(
    model: ElmoForPreTraining,
    tokenizer: ElmoTokenizer,
    words: Sequence[str],
    indices: Sequence[int],
    top: int = 10,
    *,
    unigram_weight: float = 0.0,
    log_frequencies: Tensor | None = None,
) -> list[list[Substitute]]:
    """As [`substitutes`] for several words of a sentence, which is read once."""
    _check(model, words, indices, top)
    if not indices:
        return []
    num_words = model.config.vocab_size - 1
    if log_frequencies is None:
        log_frequencies = log_uniform_probability(torch.arange(num_words), num_words).log()
    elif log_frequencies.shape != (num_words,):
        raise ValueError(
            f"log_frequencies: got shape {tuple(log_frequencies.shape)}; expected ({num_words},), a number for every "
            "word of the vocabulary file."
        )
    tops = read(model, [words])
    prior = unigram_weight * log_frequencies.to(tops.forward.device, torch.float32)  # (V,)
    own_ids = word_ids(model, tokenizer, words)
    found: list[list[Substitute]] = []
    for start in range(0, len(indices), _POSITIONS_PER_CHUNK):
        chunk = list(indices[start : start + _POSITIONS_PER_CHUNK])
        found += _of_chunk(model, tokenizer, tops, chunk, [own_ids[index] for index in chunk], prior, top)
    return found


def _of_chunk(
    model: ElmoForPreTraining,
    tokenizer: ElmoTokenizer,
    tops: Tops,
    indices: list[int],
    own_ids: list[int],
    prior: Tensor,
    top: int,
) -> list[list[Substitute]]:
    places = torch.tensor(indices, device=tops.forward.device)
    forward = model.lm_head.log_probabilities(tops.forward[0, places])  # (k, V), from the word before
    backward = model.lm_head.log_probabilities(tops.backward[0, places + 2])  # (k, V), from the word after
    scores = forward + backward - prior
    config = model.config
    never: list[Any] = [config.bos_token_id, config.eos_token_id, config.unk_token_id]
    scores[:, [number - 1 for number in never]] = -torch.inf  # word id w has column w - 1
    scores[torch.arange(len(indices)), torch.tensor(own_ids) - 1] = -torch.inf
    best, columns = scores.topk(min(top, scores.shape[1]), dim=1)  # (k, top)
    return [
        [
            Substitute(word, score, ahead, back)
            for word, score, ahead, back in zip(
                tokenizer.convert_ids_to_tokens((columns[row] + 1).tolist()),
                best[row].tolist(),
                forward[row, columns[row]].tolist(),
                backward[row, columns[row]].tolist(),
                strict=True,
            )
            if score > -torch.inf
        ]
        for row in range(len(indices))
    ]


def _check(model: ElmoForPreTraining, words: Sequence[str], indices: Sequence[int], top: int) -> None:
    checked_words(0, words)
    for index in indices:
        if not 0 <= index < len(words):
            raise IndexError(f"index: got {index}; expected 0 to {len(words) - 1}, a word of the sentence.")
    if top < 1:
        raise ValueError(f"top: got {top}; expected 1 or more.")
    if model.training:
        raise ValueError("model: got one in training mode, whose dropout is at work; expected model.eval().")
