"""A language model whose log-probabilities NumPy knows."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from hf_elmo import ElmoForPreTraining, ElmoTokenizer
from tests.hf_elmo.models import converted
from tests.oracles import numpy_elmo, random_weights

OPTIONS = random_weights.options("tiny")
WEIGHTS = random_weights.random_weights(OPTIONS, seed=7)
VOCABULARY = ["<S>", "</S>", "<UNK>", "the", ".", "dog", "a", "bark", "cat", "naïve", "東京"]
SENTENCES = [
    ["the", "dog", "let", "out", "a", "sharp", "bark", "."],
    ["a"],
    [],
    ["naïve", "東京", "<UNK>", "zebra", "<pad>", "x" * 60],
    ["the", "cat", "."],
]


def language_model(folder: Path) -> tuple[ElmoForPreTraining, ElmoTokenizer]:
    elmo = converted(folder, OPTIONS, WEIGHTS)
    elmo.config.vocab_size = len(VOCABULARY) + 1
    model = ElmoForPreTraining(elmo.config).eval()
    torch.manual_seed(0)
    torch.nn.init.normal_(model.lm_head.weight)
    torch.nn.init.normal_(model.lm_head.bias)
    model.elmo.load_state_dict(elmo.state_dict(), strict=False)
    return model, ElmoTokenizer(VOCABULARY)


def log_probabilities(model: ElmoForPreTraining, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Of every word of the vocabulary at words 0 .. n-1, boundaries read: given what is before, given what is after.

    Two arrays (n + 2, V): row i + 1 belongs to word i; there is nothing before the first row, nor after the last.
    """
    layers, _ = numpy_elmo.embed_sentence(words, OPTIONS, WEIGHTS, keep_boundaries=True)
    forward, backward = np.split(layers[-1], 2, axis=-1)  # (n + 2, P) each
    weight, bias = (values.detach().double().numpy() for values in (model.lm_head.weight, model.lm_head.bias))
    nothing = np.full((1, len(bias)), np.nan)

    def normalised(top: np.ndarray) -> np.ndarray:
        logits = top @ weight.T + bias
        return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))

    return (
        np.concatenate([nothing, normalised(forward)[:-1]]),
        np.concatenate([normalised(backward)[1:], nothing]),
    )


def rows(words: Sequence[str]) -> list[int]:
    return [VOCABULARY.index(word) if word in VOCABULARY else 2 for word in words]
