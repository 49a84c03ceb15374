"""How likely a language model finds the words of a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hf_elmo.language_model import batches, read, word_ids
from hf_elmo.modeling_elmo import ElmoForPreTraining
from hf_elmo.perplexity import Perplexity
from hf_elmo.text_input import checked_words
from hf_elmo.tokenization_elmo import ElmoTokenizer

# Batches of sentences that are collected, so that those of like length meet in one.
_BATCHES_PER_WINDOW = 8


@dataclass(frozen=True)
class SentenceScore:
    r"""Natural logarithms of the probabilities of a sentence's words, each given all words on one side of it.

    .. math:: \ln p(w_i \mid \text{<S>}, w_1 … w_{i-1}) \text{ and } \ln p(w_i \mid w_{i+1} … w_n, \text{</S>})

    A sentence without words predicts nothing, not even its boundaries.

    Attributes:
        words: as they were given.
        is_known: which of them are in the vocabulary; the others are scored as `<UNK>`, which stands for all of them
            together and is therefore more likely than any single one.
        forward: (n,) each word given the words before it.
        backward: (n,) each word given the words after it.
        end: `</S>` given all words, forward.
        begin: `<S>` given all words, backward.
    """

    words: list[str]
    is_known: list[bool]
    forward: np.ndarray
    backward: np.ndarray
    end: float
    begin: float

    @property
    def predictions(self) -> int:
        """In each direction: the words and one boundary."""
        return len(self.words) + 1 if self.words else 0

    @property
    def forward_sum(self) -> float:
        """Log-probability of the sentence, read forward, `</S>` included."""
        return float(self.forward.sum()) + self.end

    @property
    def backward_sum(self) -> float:
        """Log-probability of the sentence, read backward, `<S>` included."""
        return float(self.backward.sum()) + self.begin

    @property
    def forward_perplexity(self) -> float | None:
        """Of the words and one boundary: exp of the mean negative log-probability; None without words."""
        return math.exp(-self.forward_sum / self.predictions) if self.predictions else None

    @property
    def backward_perplexity(self) -> float | None:
        """Of the words and one boundary: exp of the mean negative log-probability; None without words."""
        return math.exp(-self.backward_sum / self.predictions) if self.predictions else None


class Totals:
    """Sums over sentences.

    Attributes:
        sentences, words, unknown_words, predictions: how many; predictions in each direction.
        forward_sum, backward_sum: log-probabilities.
    """

    def __init__(self) -> None:
        self.sentences = self.words = self.unknown_words = self.predictions = 0
        self.forward_sum = self.backward_sum = 0.0

    def add(self, score: SentenceScore) -> None:
        """Count a sentence."""
        self.sentences += 1
        self.words += len(score.words)
        self.unknown_words += score.is_known.count(False)
        self.predictions += score.predictions
        self.forward_sum += score.forward_sum
        self.backward_sum += score.backward_sum

    @property
    def perplexity(self) -> Perplexity:
        """Of all words; each sentence was read by itself.

        Raises:
            ValueError: there was no word.
        """
        if not self.predictions:
            raise ValueError("score: got no word to predict; expected at least one sentence.")
        forward, backward = -self.forward_sum / self.predictions, -self.backward_sum / self.predictions
        return Perplexity(math.exp(forward), math.exp(backward), math.exp((forward + backward) / 2), self.predictions)


def score(
    model: ElmoForPreTraining,
    tokenizer: ElmoTokenizer,
    sentences: Iterable[Sequence[str]],
    *,
    max_words_per_batch: int = 4096,
) -> Iterator[SentenceScore]:
    """Score sentences in their order, from a stream of any length.

    Args:
        model: with its softmax, in evaluation mode; see [`load_language_model`].
        tokenizer: the model's.
        sentences: lists of words; read as far ahead as a few batches reach.
        max_words_per_batch: bound on the positions of a batch, padding included.

    Raises:
        ValueError: a model in training mode; a word with a lone surrogate.
        TypeError: a sentence that is no list of words.
    """
    if model.training:
        raise ValueError("model: got one in training mode, whose dropout is at work; expected model.eval().")
    if max_words_per_batch < 1:
        raise ValueError(f"max_words_per_batch: got {max_words_per_batch}; expected 1 or more.")
    return _scores(model, tokenizer, sentences, max_words_per_batch)


def _scores(
    model: ElmoForPreTraining, tokenizer: ElmoTokenizer, sentences: Iterable[Sequence[str]], max_words: int
) -> Iterator[SentenceScore]:
    window: list[list[str]] = []
    positions = 0
    for number, sentence in enumerate(sentences):
        window.append(checked_words(number, sentence))
        positions += len(sentence) + 2
        if positions >= _BATCHES_PER_WINDOW * max_words:
            yield from _window_scores(model, tokenizer, window, max_words)
            window, positions = [], 0
    yield from _window_scores(model, tokenizer, window, max_words)


def _window_scores(
    model: ElmoForPreTraining, tokenizer: ElmoTokenizer, window: list[list[str]], max_words: int
) -> list[SentenceScore]:
    none = np.empty(0)
    scores = [SentenceScore([], [], none, none, 0.0, 0.0) for _ in window]
    filled = [index for index, words in enumerate(window) if words]
    for batch in batches([len(window[index]) for index in filled], max_words):
        indices = [filled[place] for place in batch]
        computed = _batch_scores(model, tokenizer, [window[index] for index in indices])
        for index, result in zip(indices, computed, strict=True):
            scores[index] = result
    return scores


@torch.inference_mode()
def _batch_scores(
    model: ElmoForPreTraining, tokenizer: ElmoTokenizer, sentences: list[list[str]]
) -> list[SentenceScore]:
    tops = read(model, sentences)
    config = model.config
    ids = [word_ids(model, tokenizer, words) for words in sentences]
    shape = tops.forward.shape[:2]
    following, previous = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape, dtype=torch.int64)  # (B, T)
    for row, numbers in enumerate(ids):
        following[row, : len(numbers) + 1] = torch.tensor([*numbers, config.eos_token_id])
        previous[row, 1 : len(numbers) + 2] = torch.tensor([config.bos_token_id, *numbers])
    counts = [len(numbers) + 1 for numbers in ids]
    forward, backward = (
        torch.split(-model.lm_head.negative_log_likelihood(top, labels.to(top.device)).double().cpu(), counts)
        for top, labels in ((tops.forward, following), (tops.backward, previous))
    )
    return [
        SentenceScore(
            words,
            [number != config.unk_token_id for number in numbers],
            ahead[:-1].numpy(),
            back[1:].numpy(),
            end=ahead[-1].item(),
            begin=back[0].item(),
        )
        for words, numbers, ahead, back in zip(sentences, ids, forward, backward, strict=True)
    ]
