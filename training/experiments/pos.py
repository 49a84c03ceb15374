"""Parts of speech: a linear probe on each layer (Table 6), and spaCy's tagger without and with ELMo."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.budget import Budget, first
from experiments.probe import probe_accuracy
from experiments.readers.columns import Tagged
from experiments.readers.conllu import read_conllu
from experiments.readers.static_vectors import StaticVectors
from experiments.resources import Resources
from experiments.rows import Measurement, Row, Settings
from experiments.shares import share
from experiments.spacy_training import evaluate_spacy, spacy_layer_weights, train_spacy

GROUP = "pos"
VECTORS = "vectors/glove.6B.50d.top100k.txt.gz"
FILES = {
    "ewt": ("tasks/ewt/train.conllu", "tasks/ewt/test.conllu"),
    "gum": ("tasks/gum/train.conllu.gz", "tasks/gum/test.conllu.gz"),
}
# Words to be read in training, by percent of the data.
WORDS = {10: 200_000, 100: 1_000_000}


def probe_rows(budget: Budget, *, group: str = GROUP, **settings: Any) -> list[Row]:
    """One for each corpus; `settings` may name its model."""
    return [
        Row(
            f"{group}-{corpus}-probe",
            group,
            {"task": corpus, "network": "probe", **settings, **budget.settings()},
            measure_probe,
            (*FILES[corpus], VECTORS),
            minutes=2,
        )
        for corpus in FILES
    ]


def tagger_rows(budget: Budget) -> list[Row]:
    """Rows of spaCy's tagger on 10 %, which are repeated, and on all of the data."""
    return [
        tagger_row(budget, corpus=corpus, percent=percent, elmo=elmo, seed=seed)
        for percent in WORDS
        for corpus in FILES
        for seed in range(budget.seeds if percent < 100 else 1)
        for elmo in ("none", "input")
    ]


def tagger_row(budget: Budget, *, corpus: str, percent: int, elmo: str, seed: int, group: str = GROUP) -> Row:
    """One experiment."""
    return Row(
        f"{group}-{corpus}-{percent}-spacy-{elmo}-seed{seed}",
        group,
        {
            "task": corpus,
            "network": "spacy",
            "percent": percent,
            "elmo": elmo,
            "seed": seed,
            **budget.settings(words=WORDS[percent]),
        },
        measure_tagger,
        FILES[corpus],
        minutes=(4.5 if elmo == "input" else 3.2) * WORDS[percent] / 1e6 + 0.4,
        reads_model=elmo != "none",
    )


def measure_probe(resources: Resources, settings: Settings) -> Measurement:
    """The probe on every layer, on their average, and on static vectors."""
    train, test = (
        first(read_conllu(resources.path(path)), settings["most_sentences"]) for path in FILES[settings["task"]]
    )
    kinds = sorted({label for sentence in train for label in sentence.labels})
    labels = [_labels(sentences, kinds) for sentences in (train, test)]
    vectors = StaticVectors(resources.path(VECTORS))
    layers = [_layers(sentences, resources) for sentences in (train, test)]
    depth = layers[0].shape[0]
    inputs = {"static": [vectors.vectors[vectors.rows(_words(sentences))] for sentences in (train, test)]}
    inputs |= {f"layer{number}": [part[number] for part in layers] for number in range(depth)}
    inputs["average"] = [part.mean(axis=0, dtype=np.float32) for part in layers]
    metrics = {name: probe_accuracy(parts[0], labels[0], parts[1], labels[1]) for name, parts in inputs.items()}
    return Measurement(
        {**metrics, "training_words": len(labels[0]), "test_words": len(labels[1])}, words=len(labels[0])
    )


def measure_tagger(resources: Resources, settings: Settings) -> Measurement:
    """Tags by spaCy's CPU pipeline."""
    train, test = (read_conllu(resources.path(path)) for path in FILES[settings["task"]])
    most = settings["most_sentences"]
    train = first(share(train, percent=settings["percent"], seed=settings["seed"]), most)
    test = first(test, most)
    trained = train_spacy(
        "tagger", train, resources, elmo=settings["elmo"], words=settings["words"], seed=settings["seed"]
    )
    return Measurement(
        {
            **evaluate_spacy("tagger", trained.nlp, test),
            "training_sentences": len(train),
            "test_sentences": len(test),
        },
        steps=trained.steps,
        words=trained.words,
        training_seconds=trained.seconds,
        layer_weights=spacy_layer_weights(trained.nlp, "tagger"),
    )


def _layers(sentences: Sequence[Tagged], resources: Resources) -> np.ndarray:
    """(L + 1, N, 2P) float16."""
    parts = [part.astype(np.float16) for part in resources.layers([sentence.words for sentence in sentences])]
    return np.concatenate(parts, axis=1)


def _words(sentences: Sequence[Tagged]) -> list[str]:
    return [word for sentence in sentences for word in sentence.words]


def _labels(sentences: Sequence[Tagged], kinds: list[str]) -> np.ndarray:
    """(N,), -1 for a part of speech that training has not seen, which counts as an error."""
    numbers = {kind: number for number, kind in enumerate(kinds)}
    return np.array([numbers.get(label, -1) for sentence in sentences for label in sentence.labels], dtype=np.int64)
