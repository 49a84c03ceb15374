"""Word senses: nearest neighbours trained on SemCor (Table 5), Word-in-Context, and uses of "play" (Table 4)."""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from experiments.budget import Budget, first
from experiments.nearest_sense import Averages, average_senses, disambiguate, sense_f1, use_vector
from experiments.readers.semcor import Sensed, Use, read_first_senses, read_raganato, read_semcor
from experiments.readers.wic import WordInTwo, read_wic
from experiments.resources import Resources
from experiments.rows import Measurement, Row, Settings

GROUP = "senses"
TESTS = ("senseval2", "senseval3", "semeval2007", "semeval2013", "semeval2015")
_SEMCOR = "tasks/semcor/semcor.jsonl.gz"
_NEIGHBOURS = 5
# Weights of a sense's frequency beside its cosine; the set that is usually for such choices chooses.
_FREQUENCY_WEIGHTS = (0.01, 0.03, 0.1, 0.3)
_CHOSEN_ON = "semeval2007"


def rows(budget: Budget) -> list[Row]:
    """One for each of the three."""
    settings = budget.settings()
    return [
        Row("senses-wsd", GROUP, settings, measure_wsd, (_SEMCOR, "tasks/wsd_eval", "wordnet"), minutes=3),
        Row("senses-wic", GROUP, settings, measure_wic, ("tasks/wic",), minutes=2),
        Row("senses-neighbours", GROUP, {"word": "play%1", **settings}, measure_neighbours, (_SEMCOR,), minutes=1),
    ]


def measure_wsd(resources: Resources, settings: Settings) -> Measurement:
    """F1 of every layer over the five sets, each and together, beside the first sense and the most frequent one.

    And of every layer with a bonus for frequent senses, whose weight is chosen on one of the sets.
    """
    most = settings["most_sentences"]
    semcor = first(read_semcor(resources.path(_SEMCOR)), most)
    averages = average_senses(semcor, resources.streamed_layers([sentence.words for sentence in semcor]))
    if not resources.wordnet.is_file():
        raise FileNotFoundError(
            f"{resources.wordnet}: not found; expected WordNet 3.0's index.sense, given by --wordnet (Debian and "
            "Ubuntu: package wordnet-sense-index)."
        )
    first_senses = read_first_senses(resources.wordnet)
    uses: dict[str, list[Use]] = {}
    answers: dict[str, dict[str, dict[str, str | None]]] = {}  # by way, then by set
    for test in TESTS:
        sentences = first(read_raganato(resources.path("tasks", "wsd_eval", test)), most)
        layers = list(resources.streamed_layers([s.words for s in sentences]))
        uses[test] = [use for sentence in sentences for use in sentence.uses]
        for way, given in _by_baseline(uses[test], averages, first_senses).items():
            answers.setdefault(way, {})[test] = given
        for weight in (0.0, *_FREQUENCY_WEIGHTS):
            by_layer = disambiguate(sentences, layers, averages, first_senses, frequency_weight=weight)
            for way, given in _by_layer(by_layer).items():
                answers.setdefault(f"{way}, {weight}" if weight else way, {})[test] = given
    metrics = _scores(uses, answers)
    for way in [way for way in answers if f"{way}, {_FREQUENCY_WEIGHTS[0]}" in answers]:
        best = max(_FREQUENCY_WEIGHTS, key=lambda weight: metrics[f"{way}, {weight}_{_CHOSEN_ON}"])
        metrics |= {f"frequency_{way}_{test}": metrics[f"{way}, {best}_{test}"] for test in (*TESTS, "all")}
        metrics[f"frequency_{way}_weight"] = best
    metrics = {name: score for name, score in metrics.items() if ", " not in name}
    everything = [use for test in TESTS for use in uses[test]]
    unseen = sum(use.lemma not in averages.senses for use in everything)
    return Measurement(
        {
            **metrics,
            "instances": len(everything),
            "fallback": 100 * unseen / len(everything),
            "senses": len(averages.vectors),
        },
        words=sum(len(sentence.words) for sentence in semcor),
    )


def _by_layer(by_layer: dict[str, list[str | None]]) -> dict[str, dict[str, str | None]]:
    """Per layer, and for their average, the answer to each instance."""
    depth = len(next(iter(by_layer.values()))) - 1
    ways = [*(f"layer{number}" for number in range(depth)), "average"]
    return {way: {name: found[number] for name, found in by_layer.items()} for number, way in enumerate(ways)}


def _by_baseline(uses: list[Use], averages: Averages, first_senses: dict[str, str]) -> dict[str, dict[str, str | None]]:
    """The answers without looking at the sentence."""
    return {
        "first_sense": {use.name: first_senses.get(use.lemma) for use in uses},
        "most_frequent": {use.name: _most_frequent(use, averages, first_senses) for use in uses},
    }


def _scores(uses: dict[str, list[Use]], answers: dict[str, dict[str, dict[str, str | None]]]) -> dict[str, float]:
    """F1 by way and set, and over all sets."""
    metrics: dict[str, float] = {}
    # Instances are numbered anew in every set.
    everything = [use._replace(name=f"{test}.{use.name}") for test in TESTS for use in uses[test]]
    for way, given in answers.items():
        metrics |= {f"{way}_{test}": sense_f1(uses[test], given[test]) for test in TESTS}
        together = {f"{test}.{name}": key for test in TESTS for name, key in given[test].items()}
        metrics[f"{way}_all"] = sense_f1(everything, together)
    return metrics


def _most_frequent(use: Use, averages: Averages, first_senses: dict[str, str]) -> str | None:
    keys = averages.senses.get(use.lemma)
    return max(keys, key=lambda key: averages.counts[key]) if keys else first_senses.get(use.lemma)


def measure_wic(resources: Resources, settings: Settings) -> Measurement:
    """Accuracy of each layer's cosine against the threshold that is best on the training pairs."""
    folder = resources.path("tasks", "wic")
    cosines, same = {}, {}
    for split in ("train", "dev", "test"):
        pairs = first(read_wic(folder, split), settings["most_sentences"])
        cosines[split] = _cosines(pairs, resources)  # (L + 2, N)
        same[split] = np.array([pair.same for pair in pairs])
    metrics = {}
    ways = [*(f"layer{number}" for number in range(len(cosines["train"]) - 1)), "average"]
    for way, *values in zip(ways, *(cosines[split] for split in ("train", "dev", "test")), strict=True):
        threshold = best_threshold(values[0], same["train"])
        for split, cosine in zip(("train", "dev", "test"), values, strict=True):
            metrics[f"{way}_{split}"] = 100 * float(((cosine >= threshold) == same[split]).mean())
        metrics[f"{way}_threshold"] = threshold
    return Measurement({**metrics, "test_pairs": len(same["test"])}, words=0)


def best_threshold(cosines: NDArray[np.floating], same: NDArray[np.bool_]) -> float:
    """The cosine from which on "the same" is right most often; the lowest of equals.

    Shape:
        cosines (N,), same (N,)
    """
    order = np.argsort(cosines, kind="stable")
    ordered, labels = cosines[order], same[order]
    # With the threshold at ordered[k], those below k are called different.
    right = np.concatenate([[0], np.cumsum(~labels)]) + np.concatenate([np.cumsum(labels[::-1])[::-1], [0]])
    # A threshold between equal cosines is none.
    possible = np.concatenate([[True], ordered[1:] > ordered[:-1], [True]])
    best = int(np.argmax(np.where(possible, right, -1)))
    return float(ordered[best]) if best < len(ordered) else float(np.nextafter(ordered[-1], np.inf))


def _cosines(pairs: list[WordInTwo], resources: Resources) -> NDArray[np.float64]:
    """(L + 2, N): of each layer, then of their average."""
    layers = resources.layers([words for pair in pairs for words in pair.sentences])
    columns = []
    for pair in pairs:
        one, other = (next(layers)[:, place].astype(np.float64) for place in pair.places)  # (L + 1, 2P)
        one, other = (np.concatenate([x, x.mean(axis=0, keepdims=True)]) for x in (one, other))
        lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        columns.append((one * other).sum(axis=1) / np.maximum(lengths, 1e-12))
    return np.stack(columns, axis=1)


def measure_neighbours(resources: Resources, settings: Settings) -> Measurement:
    """How often the nearest other use of a word in SemCor has its sense, and the neighbours of the paper's two."""
    lemma = settings["word"]
    found = [
        (sentence, use)
        for sentence in read_semcor(resources.path(_SEMCOR))
        for use in sentence.uses
        if use.lemma == lemma
    ]
    found = first(found, settings["most_sentences"])
    layers = resources.layers([sentence.words for sentence, _ in found])
    vectors = np.stack([use_vector(part, use) for part, (_, use) in zip(layers, found, strict=True)], axis=1)
    metrics: dict[str, float] = {"uses": len(found)}
    order = np.empty(0)
    for number, layer in enumerate(vectors.astype(np.float64)):  # (N, 2P)
        unit = layer / np.maximum(np.linalg.norm(layer, axis=1, keepdims=True), 1e-12)
        cosines = unit @ unit.T
        np.fill_diagonal(cosines, -np.inf)
        nearest = cosines.argmax(axis=1)
        same = [bool(found[a][1].senses & found[b][1].senses) for a, b in enumerate(nearest)]
        metrics[f"layer{number}"] = 100 * sum(same) / len(same)
        order = cosines.argsort(axis=1)[:, ::-1]
    most = Counter(key for _, use in found for key in use.senses).most_common(1)[0][1]
    metrics["most_frequent"] = 100 * most / len(found)
    sources = [n for n, (sentence, _) in enumerate(found) if {"Alusik", "Garson"} & set(sentence.words)] or [0]
    details = {
        "neighbours": [
            {"source": _shown(*found[n]), "nearest": [_shown(*found[k]) for k in order[n][:_NEIGHBOURS]]}
            for n in sources
        ]
    }
    return Measurement(metrics, details=details)


def _shown(sentence: Sensed, use: Use) -> dict[str, str]:
    """The use with the words around it, and its sense."""
    before, after = sentence.words[max(0, use.start - 8) : use.start], sentence.words[use.end : use.end + 8]
    marked = ["**" + " ".join(sentence.words[use.start : use.end]) + "**"]
    return {"text": " ".join([*before, *marked, *after]), "sense": min(use.senses)}
