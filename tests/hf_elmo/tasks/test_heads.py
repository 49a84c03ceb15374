"""A new head takes the biLM's weights, and of its mix those of the layers that it reads."""

from pathlib import Path
from typing import Any

import pytest
import torch

from hf_elmo import ElmoForQuestionAnswering, ElmoForSequenceClassification, ElmoForTokenClassification, ElmoTokenizer
from hf_elmo.tasks.baseline import (
    BaselineForQuestionAnswering,
    BaselineForSequenceClassification,
    BaselineForTokenClassification,
)
from hf_elmo.tasks.heads import HeadClasses, head_on_elmo
from hf_elmo.tasks.options import TaskOptions
from tests.hf_elmo.models import random_model

CLASSES = [
    HeadClasses(ElmoForTokenClassification, BaselineForTokenClassification),
    HeadClasses(ElmoForSequenceClassification, BaselineForSequenceClassification),
    HeadClasses(ElmoForQuestionAnswering, BaselineForQuestionAnswering),
]


def folder_with_mix(folder: Path, weights: list[float], **changes: Any) -> TaskOptions:
    model = random_model(**changes)
    assert model.scalar_mix is not None
    with torch.no_grad():
        model.scalar_mix.weights.copy_(torch.tensor(weights))
        model.scalar_mix.gamma.fill_(1.5 if any(weights) else 1.0)
    model.save_pretrained(folder)
    ElmoTokenizer().save_pretrained(folder)
    return TaskOptions(train_file="", model_name_or_path=str(folder))


@pytest.mark.parametrize("classes", CLASSES, ids=["ner", "classifier", "qa"])
@pytest.mark.parametrize(
    ("weights", "wanted", "chosen"),
    [
        ([0.0, 0.0, 0.0], [0, 1], [0.0, 0.0]),
        ([0.25, -1.0, 2.0], [0, 1], [0.25, -1.0]),
        ([0.25, -1.0, 2.0], [2], [2.0]),
        ([0.25, -1.0, 2.0], None, [0.25, -1.0, 2.0]),
    ],
)
def test_the_mix_is_taken_by_the_numbers_of_its_layers(
    tmp_path: Path, classes: HeadClasses, weights: list[float], wanted: list[int] | None, chosen: list[float]
) -> None:
    head = head_on_elmo(classes, folder_with_mix(tmp_path, weights), {"mix_layers": wanted}, ["a", "b"])
    mix: Any = head.elmo.scalar_mix
    assert (mix.layers, mix.weights.tolist()) == (wanted or [0, 1, 2], chosen)
    assert mix.gamma.item() == (1.5 if any(weights) else 1.0)


def test_a_trained_mix_without_a_layer_is_refused(tmp_path: Path) -> None:
    options = folder_with_mix(tmp_path, [0.25, -1.0], mix_layers=[0, 1])
    with pytest.raises(ValueError, match=r"mix_layers: got \[0, 2\]; .* trained on layers \[0, 1\]"):
        head_on_elmo(CLASSES[0], options, {"mix_layers": [0, 2]}, ["a", "b"])
