"""Named entities, without and with ELMo, on 1 %, 10 % and all of the training data (Tables 1 and 3, Figure 1)."""

from collections.abc import Sequence
from typing import Any

import torch

from experiments.budget import Budget, first
from experiments.feature_heads import FeaturesForTokenClassification, feature_config, mix_settings
from experiments.head_training import Example, predict, train_head
from experiments.readers.columns import Tagged, entities, read_columns
from experiments.readers.static_vectors import StaticVectors
from experiments.resources import Resources
from experiments.rows import Measurement, Row, Settings
from experiments.sentence_features import SentenceFeatures
from experiments.shares import share
from experiments.spacy_training import evaluate_spacy, spacy_layer_weights, train_spacy

GROUP = "ner"
VECTORS = "vectors/glove.6B.50d.top100k.txt.gz"
FILES = {
    "conll03": ("tasks/conll03/eng.train", "tasks/conll03/eng.testa"),
    "wnut17": ("tasks/wnut17/train.conll", "tasks/wnut17/test.conll"),
}
# Words to be read in training, by percent of the data.
WORDS = {
    "conll03": {1: 60_000, 10: 400_000, 100: 1_600_000},
    "wnut17": {1: 20_000, 10: 190_000, 100: 900_000},
}
PLACEMENTS = {"spacy": ("none", "input", "both"), "crf": ("none", "input")}
# Estimates on one core: minutes for a million words, and for evaluation and the rest.
_MINUTES = {("spacy", "none"): (3.5, 0.4), ("spacy", "input"): (5.0, 0.5), ("spacy", "both"): (6.0, 0.6)}
_MINUTES |= {("crf", "none"): (4.0, 0.5), ("crf", "input"): (5.5, 0.8)}


def rows(budget: Budget) -> list[Row]:
    """10 % first; what reads a part of the data is repeated."""
    found = []
    for percent in (10, 1, 100):
        for task in FILES:
            for network, placements in PLACEMENTS.items():
                for seed in range(budget.seeds if percent < 100 else 1):
                    for elmo in placements:
                        found.append(row(budget, task=task, percent=percent, network=network, elmo=elmo, seed=seed))
    return found


def row(budget: Budget, *, group: str = GROUP, task: str, network: str, **settings: Any) -> Row:
    """One experiment; `settings` are percent, elmo, seed, and for the mixing experiments the mix's."""
    percent, elmo, seed = (settings[name] for name in ("percent", "elmo", "seed"))
    words = WORDS[task][percent]
    each, fixed = _MINUTES[network, elmo]
    variant = settings.get("variant")
    name = f"{group}-{task}-{percent}-{network}-{elmo}{f'-{variant}' if variant else ''}-seed{seed}"
    return Row(
        name,
        group,
        {"task": task, "network": network, **settings, **budget.settings(words=words)},
        measure_spacy if network == "spacy" else measure_crf,
        FILES[task] if network == "spacy" else (*FILES[task], VECTORS),
        minutes=each * words / 1e6 + fixed,
        reads_model=elmo != "none",
    )


def measure_spacy(resources: Resources, settings: Settings) -> Measurement:
    """NER by spaCy's CPU pipeline; the setting `mix_options` changes those of `init-config`'s mix."""
    train, test = read_task(resources, settings)
    mix = settings.get("mix_options", {})
    trained = train_spacy(
        "ner", train, resources, elmo=settings["elmo"], words=settings["words"], seed=settings["seed"], **mix
    )
    metrics = evaluate_spacy("ner", trained.nlp, test)
    return Measurement(
        {**metrics, "training_sentences": len(train), "test_sentences": len(test)},
        steps=trained.steps,
        words=trained.words,
        training_seconds=trained.seconds,
        layer_weights=spacy_layer_weights(trained.nlp, "ner"),
    )


def measure_crf(resources: Resources, settings: Settings) -> Measurement:
    """A biLSTM with a CRF on [x; ELMo]; settings beyond those of the spaCy rows are `glove` and the mix's."""
    train, test = read_task(resources, settings)
    labels = sorted({label for sentence in train for label in sentence.labels} | {"O"})
    features = SentenceFeatures(
        [sentence.words for sentence in [*train, *test]],
        resources,
        vectors=StaticVectors(resources.path(VECTORS)) if settings.get("glove", True) else None,
        elmo=settings["elmo"] != "none",
        max_characters_per_word=50,
    )
    torch.manual_seed(settings["seed"])
    model = FeaturesForTokenClassification(
        feature_config(
            features,
            **mix_settings(settings),
            elmo_placement="both" if settings["elmo"] == "both" else "input",
            num_labels=len(labels),
            classifier_num_layers=1,
            classifier_lstm_size=200,
            classifier_dropout=0.5,
            use_crf=True,
        )
    )
    model.features = features
    training = train_head(
        model,
        _examples(train, features, labels),
        words=settings["words"],
        batch_size=settings.get("batch_size", 16),
        learning_rate=settings.get("learning_rate", 0.002),
        seed=settings["seed"],
        device=resources.device,
    )
    predicted = tag(model, test, features, labels, device=resources.device)
    return Measurement(
        {
            **entity_scores([sentence.labels for sentence in test], predicted),
            "training_sentences": len(train),
            "test_sentences": len(test),
        },
        steps=training.steps,
        words=training.words,
        training_seconds=training.seconds,
        layer_weights=model.layer_weights(),
    )


def read_task(resources: Resources, settings: Settings) -> tuple[list[Tagged], list[Tagged]]:
    """Training and test sentences."""
    train, test = (read_columns(resources.path(path)) for path in FILES[settings["task"]])
    most = settings["most_sentences"]
    train = share(train, percent=settings["percent"], seed=settings["seed"])
    return first(train, most), first(test, most)


def tag(
    model: FeaturesForTokenClassification,
    sentences: Sequence[Tagged],
    features: SentenceFeatures,
    labels: list[str],
    *,
    device: str,
) -> list[list[str]]:
    """Each sentence's predicted labels."""
    predicted: list[list[str]] = [[] for _ in sentences]
    for number, output, row_number in predict(model, _examples(sentences, features, labels), device=device):
        length = len(sentences[number].words)
        tags = output.predictions[row_number, 1 : length + 1].tolist()  # without the boundaries
        predicted[number] = [labels[label] for label in tags]
    return predicted


def entity_scores(gold: Sequence[list[str]], predicted: Sequence[list[str]]) -> dict[str, float]:
    """Precision, recall and F1 of whole entities, in percent: begin, end and kind must be right."""
    found = right = wanted = 0
    for one, other in zip(gold, predicted, strict=True):
        true, guessed = entities(one), entities(other)
        wanted, found, right = wanted + len(true), found + len(guessed), right + len(true & guessed)
    precision, recall = (right / count if count else 0.0 for count in (found, wanted))
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return {"f1": 100 * f1, "precision": 100 * precision, "recall": 100 * recall}


def _examples(sentences: Sequence[Tagged], features: SentenceFeatures, labels: list[str]) -> list[Example]:
    numbers = {label: number for number, label in enumerate(labels)}
    return [
        {
            "character_ids": torch.from_numpy(features.character_ids(sentence.words)),
            # A label that training has not seen cannot be learnt, and is not looked at in prediction.
            "labels": torch.tensor([-100, *(numbers.get(label, -100) for label in sentence.labels), -100]),
        }
        for sentence in sentences
    ]
