import math

import numpy as np
import pytest
from experiments.nearest_sense import average_senses, disambiguate, nearest_sense, sense_f1
from experiments.readers.semcor import Sensed, Use
from experiments.senses import best_threshold
from hypothesis import given
from hypothesis import strategies as st

LEMMAS = ("play%1", "run%2", "dry%3")
SENSES = {lemma: [f"{lemma}:{number}" for number in range(3)] for lemma in LEMMAS}


def _sentences(generator: np.random.Generator, count: int, lemmas: tuple[str, ...]) -> list[Sensed]:
    sentences = []
    for place in range(count):
        length = int(generator.integers(3, 7))
        start = int(generator.integers(0, length - 1))
        end = start + int(generator.integers(1, length - start + 1))
        lemma = lemmas[int(generator.integers(len(lemmas)))]
        keys = generator.choice(SENSES[lemma], size=int(generator.integers(1, 3)), replace=False)
        use = Use(start, end, lemma, frozenset(map(str, keys)), f"s{place}")
        sentences.append(Sensed([f"w{n}" for n in range(length)], [use]))
    return sentences


def _brute_force(train, train_layers, test, test_layers, first_senses):
    """Section 5.3 word by word, in plain Python floats."""
    answers = {}
    for sentence, layers in zip(test, test_layers, strict=True):
        for use in sentence.uses:
            by_layer = []
            for layer in range(len(layers)):
                vector = [
                    sum(float(layers[layer][word][d]) for word in range(use.start, use.end)) / (use.end - use.start)
                    for d in range(layers.shape[2])
                ]
                best, best_cosine = first_senses.get(use.lemma), -math.inf
                for key in SENSES[use.lemma]:
                    uses = [
                        [
                            sum(float(other[layer][word][d]) for word in range(seen.start, seen.end))
                            / (seen.end - seen.start)
                            for d in range(layers.shape[2])
                        ]
                        for one, other in zip(train, train_layers, strict=True)
                        for seen in one.uses
                        if key in seen.senses
                    ]
                    if not uses:
                        continue
                    mean = [sum(values) / len(uses) for values in zip(*uses, strict=True)]
                    cosine = sum(a * b for a, b in zip(vector, mean, strict=True)) / (
                        math.hypot(*vector) * math.hypot(*mean)
                    )
                    if cosine > best_cosine:
                        best, best_cosine = key, cosine
                by_layer.append(best)
            answers[use.name] = by_layer
    return answers


@pytest.mark.parametrize("seed", range(5))
def test_nearest_sense_is_that_of_a_plain_restatement(seed: int) -> None:
    generator = np.random.default_rng(seed)
    train, test = _sentences(generator, 12, LEMMAS[:2]), _sentences(generator, 8, LEMMAS)
    layers = [
        [generator.normal(size=(3, len(sentence.words), 4)).astype(np.float32) for sentence in part]
        for part in (train, test)
    ]
    first_senses = {"dry%3": "dry%3:0"}
    averages = average_senses(train, iter(layers[0]))
    answers = disambiguate(test, iter(layers[1]), averages, first_senses)
    expected = _brute_force(train, layers[0], test, layers[1], first_senses)
    assert {name: found[:3] for name, found in answers.items()} == expected


def test_the_last_answer_is_that_of_the_average_of_layers() -> None:
    use = Use(0, 1, "play%1", frozenset(["a"]), "x")
    train = [Sensed(["w"], [use]), Sensed(["w"], [use._replace(senses=frozenset(["b"]))])]
    layers = [np.array([[[1.0, 0.0]], [[0.0, 0.2]]]), np.array([[[0.0, 1.0]], [[0.2, 0.0]]])]
    averages = average_senses(train, iter(layers))
    found = disambiguate([train[0]], iter([np.array([[[3.0, 0.0]], [[1.0, 0.0]]])]), averages, {})
    assert found["x"] == ["a", "b", "a"]


def test_cosine_not_length_decides() -> None:
    assert nearest_sense(np.array([1.0, 0.1]), [np.array([100.0, 90.0]), np.array([0.1, 0.01])]) == 1
    assert nearest_sense(np.array([1.0, 0.0]), [np.array([2.0, 0.0]), np.array([1.0, 0.0])]) == 0


def test_f1_counts_unanswered_against_recall_only() -> None:
    uses = [Use(0, 1, "play%1", frozenset(["a", "b"]), name) for name in "wxyz"]
    # precision 2/3, recall 2/4
    assert sense_f1(uses, {"w": "a", "x": "b", "y": "c", "z": None}) == pytest.approx(100 * 4 / 7)
    assert sense_f1(uses, {}) == 0.0
    assert sense_f1(uses, dict.fromkeys("wxyz", "b")) == 100.0


@given(st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=1, max_size=12))
def test_threshold_is_as_right_as_any(pairs: list[tuple[int, bool]]) -> None:
    cosines = np.array([cosine / 4 for cosine, _ in pairs])
    same = np.array([alike for _, alike in pairs])
    threshold = best_threshold(cosines, same)
    every = [((cosines >= t) == same).sum() for t in [*(n / 8 for n in range(-9, 10))]]
    assert ((cosines >= threshold) == same).sum() == max(every)


def test_a_frequent_sense_wins_by_its_weight() -> None:
    """Cosines 1 and 0.6, one use and three: the second wins from a weight of 0.4 / log 3 on."""
    uses = [Use(0, 1, "play%1", frozenset([key]), "") for key in ("a", "b", "b", "b")]
    train = [Sensed(["play"], [use]) for use in uses]
    seen = [np.array([[vector]], dtype=np.float32) for vector in ([1.0, 0.0], *[[0.6, 0.8]] * 3)]
    averages = average_senses(train, iter(seen))
    test = [Sensed(["play"], [Use(0, 1, "play%1", frozenset(["b"]), "x")])]
    border = 0.4 / math.log(3)
    for weight, expected in ((0.0, "a"), (border - 0.01, "a"), (border + 0.01, "b")):
        found = disambiguate(test, iter(seen[:1]), averages, {}, frequency_weight=weight)
        assert found == {"x": [expected] * 2}
