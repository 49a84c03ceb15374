"""Word senses by the nearest average (Peters et al. 2018, section 5.3; Melamud et al. 2016)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.readers.semcor import Sensed, Use

FloatArray = NDArray[np.float32]


class Averages(NamedTuple):
    """Every sense's average vector by layer.

    Attributes:
        vectors: per sense key (L, W), the mean over its uses; a use with two keys counts for both.
        counts: per sense key its uses.
        senses: per lemma with part of speech the keys that were seen, the first seen first.
    """

    vectors: dict[str, FloatArray]
    counts: dict[str, int]
    senses: dict[str, list[str]]


def average_senses(sentences: Sequence[Sensed], layers: Iterable[FloatArray]) -> Averages:
    """The training of the nearest neighbour.

    Args:
        sentences: with their words' senses.
        layers: of each sentence.

    Shape:
        layers (L, n, W)
    """
    sums: dict[str, FloatArray] = {}
    counts: dict[str, int] = defaultdict(int)
    senses: dict[str, list[str]] = defaultdict(list)
    for sentence, vectors in zip(sentences, layers, strict=True):
        for use in sentence.uses:
            vector = use_vector(vectors, use)  # (L, W)
            for key in use.senses:
                sums[key] = sums[key] + vector if key in sums else vector
                counts[key] += 1
                if key not in senses[use.lemma]:
                    senses[use.lemma].append(key)
    means = {key: (total / counts[key]).astype(np.float32) for key, total in sums.items()}
    return Averages(means, dict(counts), dict(senses))


def use_vector(layers: FloatArray, use: Use) -> FloatArray:
    """The average over the use's words, in every layer: (L, n, W) → (L, W)."""
    mean: FloatArray = layers[:, use.start : use.end].mean(axis=1)
    return mean


def nearest_sense(
    vector: FloatArray, candidates: Sequence[FloatArray], bonus: Sequence[float] | FloatArray | float = 0.0
) -> int:
    """The candidate with the largest cosine, to which its bonus is added; the first of equals.

    Shape:
        vector (W,), each candidate (W,), bonus (K,)
    """
    rows = np.stack(candidates)  # (K, W)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)  # (K,)
    return int(np.argmax(rows @ vector / np.maximum(lengths, 1e-12) + bonus))


def disambiguate(
    sentences: Sequence[Sensed],
    layers: Iterable[FloatArray],
    averages: Averages,
    first_senses: dict[str, str],
    *,
    frequency_weight: float = 0.0,
) -> dict[str, list[str | None]]:
    """Per instance the sense that each layer gives, then that of the layers' average.

    A lemma that training has not seen has WordNet's first sense, and None where it has none.

    Args:
        sentences: with the instances.
        layers: of each sentence.
        averages: from training.
        first_senses: WordNet's.
        frequency_weight: of the logarithm of a sense's uses in training, which is added to its cosine.
    """
    answers: dict[str, list[str | None]] = {}
    for sentence, vectors in zip(sentences, layers, strict=True):
        for use in sentence.uses:
            keys = averages.senses.get(use.lemma)
            if not keys:
                answers[use.name] = [first_senses.get(use.lemma)] * (len(vectors) + 1)
                continue
            stacked = [averages.vectors[key] for key in keys]  # (L, W) each
            bonus = frequency_weight * np.log([averages.counts[key] for key in keys])  # (K,)
            vector = use_vector(vectors, use)  # (L, W)
            found: list[str | None] = [
                keys[nearest_sense(vector[layer], [one[layer] for one in stacked], bonus)]
                for layer in range(len(vectors))
            ]
            found.append(keys[nearest_sense(vector.mean(axis=0), [one.mean(axis=0) for one in stacked], bonus)])
            answers[use.name] = found
    return answers


def sense_f1(gold: Iterable[Use], answers: dict[str, str | None]) -> float:
    """F1 in percent as the scorer of Raganato et al. (2017): an answer is right where it is one of the keys.

    An instance without an answer lowers recall only.
    """
    attempted = right = total = 0
    for use in gold:
        total += 1
        answer = answers.get(use.name)
        if answer is not None:
            attempted += 1
            right += answer in use.senses
    if not right:
        return 0.0
    precision, recall = right / attempted, right / total
    return 100 * 2 * precision * recall / (precision + recall)
