"""Sentiment and entailment with the biattentive network (McCann et al. 2017), without and with ELMo (Table 1)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from experiments.budget import Budget, first
from experiments.feature_heads import FeaturesForSequenceClassification, feature_config, mix_settings
from experiments.head_training import Example, predict, train_head
from experiments.readers.pairs import RELATIONS, read_pairs, split_by_premise
from experiments.readers.static_vectors import StaticVectors
from experiments.readers.trees import read_trees
from experiments.resources import Resources
from experiments.rows import Measurement, Row, Settings
from experiments.sentence_features import SentenceFeatures
from hf_elmo.english_splitting import english_splitting

GROUP = "sentences"
VECTORS = "vectors/glove.6B.50d.top100k.txt.gz"
FILES = {"sst5": ("tasks/sst5",), "nli": ("tasks/nli/snli_dev.jsonl",)}
WORDS = {"sst5": 1_000_000, "nli": 2_000_000}
NO_DROPOUT: dict[str, Any] = {"variant": "nodropout", "elmo_dropout": 0.0}
# An estimate on one core, without ELMo.
_MINUTES = {"sst5": 4.5, "nli": 9.0}


class Texts(NamedTuple):
    """One sentence, or two, for each row, and its class."""

    sentences: list[tuple[list[str], ...]]
    labels: list[int]


def rows(budget: Budget) -> list[Row]:
    """Both tasks; sentiment is repeated, but for ELMo at input and output.

    ELMo at the input also without the dropout of its own, which so short a training can do without.
    """
    return [
        row(budget, task=task, elmo=elmo, seed=seed, **told)
        for task in FILES
        for seed in range(budget.seeds if task == "sst5" else 1)
        for elmo, told in (("none", {}), ("input", {}), ("input", NO_DROPOUT), ("both", {}))
        if elmo != "both" or seed == 0
    ]


def row(budget: Budget, *, task: str, elmo: str, seed: int, group: str = GROUP, **settings: Any) -> Row:
    """One experiment; further settings are the mix's."""
    variant = settings.get("variant")
    return Row(
        f"{group}-{task}-{elmo}{f'-{variant}' if variant else ''}-seed{seed}",
        group,
        {
            "task": task,
            "network": "biattentive",
            "elmo": elmo,
            "seed": seed,
            **settings,
            **budget.settings(words=WORDS[task]),
        },
        measure,
        (*FILES[task], VECTORS),
        minutes=_MINUTES[task] * (1.0 if elmo == "none" else 1.2),
        reads_model=elmo != "none",
    )


def measure(resources: Resources, settings: Settings) -> Measurement:
    """Accuracy on the test rows."""
    train, test = read_task(resources, settings["task"], settings["most_sentences"])
    features = SentenceFeatures(
        [words for texts in (train, test) for row in texts.sentences for words in row],
        resources,
        vectors=StaticVectors(resources.path(VECTORS)),
        elmo=settings["elmo"] != "none",
        max_characters_per_word=50,
    )
    torch.manual_seed(settings["seed"])
    model = FeaturesForSequenceClassification(
        feature_config(
            features,
            **mix_settings(settings),
            elmo_placement="both" if settings["elmo"] == "both" else "input",
            num_labels=5 if settings["task"] == "sst5" else len(RELATIONS),
            problem_type="single_label_classification",
            pooling="biattention",
            sentence_pairs=settings["task"] == "nli",
            classifier_lstm_size=100,
            classifier_dropout=0.3,
        )
    )
    model.features = features
    training = train_head(
        model,
        _examples(train, features),
        words=settings["words"],
        batch_size=32,
        learning_rate=0.001,
        seed=settings["seed"],
        device=resources.device,
    )
    right = sum(
        int(output.logits[row_number].argmax()) == test.labels[number]
        for number, output, row_number in predict(model, _examples(test, features), device=resources.device)
    )
    return Measurement(
        {
            "accuracy": 100 * right / len(test.labels),
            "training_sentences": len(train.labels),
            "test_sentences": len(test.labels),
        },
        steps=training.steps,
        words=training.words,
        training_seconds=training.seconds,
        layer_weights=model.layer_weights(),
    )


def read_task(resources: Resources, task: str, most: int | None) -> tuple[Texts, Texts]:
    """Training and test rows."""
    if task == "sst5":
        trees = [
            first(read_trees(resources.path("tasks", "sst5", f"{split}.txt")), most) for split in ("train", "test")
        ]
        train, test = (Texts([(tree.words,) for tree in part], [tree.label for tree in part]) for part in trees)
        return train, test
    splitting = english_splitting()

    def split(text: str) -> list[str]:
        return [word for word, _ in splitting.pre_tokenize_str(text)]

    pairs = split_by_premise(read_pairs(resources.path("tasks", "nli", "snli_dev.jsonl")))
    train, test = (
        Texts(
            [(split(pair.premise), split(pair.hypothesis)) for pair in first(part, most)],
            [pair.label for pair in first(part, most)],
        )
        for part in pairs
    )
    return train, test


def _examples(texts: Texts, features: SentenceFeatures) -> Sequence[Example]:
    return [
        {
            "character_ids": torch.from_numpy(np.concatenate([features.character_ids(words) for words in row])),
            "labels": torch.tensor(label),
        }
        for row, label in zip(texts.sentences, texts.labels, strict=True)
    ]
