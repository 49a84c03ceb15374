"""Loading a saved model whose mix is to read other layers than it was saved with."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoModelForTokenClassification

from hf_elmo import ElmoConfig, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel
from tests.hf_elmo.models import random_head, random_lm, random_model

BOTH = {"elmo_placement": "both", "classifier_num_layers": 1, "classifier_lstm_size": 5, "num_labels": 3}


def saved(folder: Path, weights: list[float], *, gamma: float = 1.5, **changes: Any) -> Path:
    model = random_model(**changes)
    assert model.scalar_mix is not None
    with torch.no_grad():
        model.scalar_mix.weights.copy_(torch.tensor(weights))
        model.scalar_mix.gamma.fill_(gamma)
    model.save_pretrained(folder)
    return folder


def mix_of(model: Any) -> tuple[list[int], list[float], float]:
    mix = model.base_model.scalar_mix
    return mix.layers, mix.weights.tolist(), mix.gamma.item()


@pytest.mark.parametrize("stored", [None, [0, 1, 2], [1, 2]])
@pytest.mark.parametrize("wanted", [[2], [0, 1], [2, 0], None])
def test_an_untrained_mix_is_started_on_the_wanted_layers(
    tmp_path: Path, stored: list[int] | None, wanted: list[int] | None
) -> None:
    saved(tmp_path, [0.0] * len(stored or range(3)), gamma=1.0, mix_layers=stored)
    model = ElmoModel.from_pretrained(tmp_path, mix_layers=wanted)
    layers = wanted or [0, 1, 2]
    assert mix_of(model) == (layers, [0.0] * len(layers), 1.0)
    assert model.config.mix_layers == wanted
    head = ElmoForTokenClassification.from_pretrained(tmp_path, num_labels=2, mix_layers=wanted)
    assert mix_of(head) == (layers, [0.0] * len(layers), 1.0)
    assert head.elmo.config.mix_layers == head.config.mix_layers == wanted


@pytest.mark.parametrize(
    ("stored", "weights", "wanted", "chosen"),
    [
        (None, [0.25, -1.0, 2.0], [2], [2.0]),
        (None, [0.25, -1.0, 2.0], [2, 0], [2.0, 0.25]),
        ([2, 0], [0.25, -1.0], [0, 2], [-1.0, 0.25]),
        ([1, 0, 2], [0.25, -1.0, 2.0], None, [-1.0, 0.25, 2.0]),
        ([1, 2], [0.25, -1.0], [1], [0.25]),
    ],
)
@pytest.mark.parametrize("way", ["argument", "configuration", "auto"])
def test_a_trained_mix_keeps_the_weights_of_the_chosen_layers(
    tmp_path: Path, stored: Any, weights: list[float], wanted: Any, chosen: list[float], way: str
) -> None:
    saved(tmp_path, weights, mix_layers=stored)
    if way == "configuration":
        config = ElmoConfig.from_pretrained(tmp_path, mix_layers=wanted)
        model = ElmoModel.from_pretrained(tmp_path, config=config)
        assert config.mix_layers == wanted
    else:
        kind: Any = AutoModel if way == "auto" else ElmoModel
        model = kind.from_pretrained(tmp_path, mix_layers=wanted)
    assert mix_of(model) == (wanted or [0, 1, 2], chosen, 1.5)
    assert model.scalar_mix.weights.requires_grad
    model.save_pretrained(tmp_path / "again")
    assert mix_of(ElmoModel.from_pretrained(tmp_path / "again")) == mix_of(model)


def test_a_layer_that_a_trained_mix_does_not_have_is_refused(tmp_path: Path) -> None:
    """Of the same shape too: the weights would be of other layers."""
    saved(tmp_path, [0.25, -1.0], mix_layers=[0, 1])
    for wanted in ([1, 2], [0, 1, 2], None):
        with pytest.raises(ValueError, match=r"trained on layers \[0, 1\], and has no weight of \[2\]"):
            ElmoModel.from_pretrained(tmp_path, mix_layers=wanted)
    anew = ElmoModel.from_pretrained(tmp_path, mix_layers=[1, 2], ignore_mismatched_sizes=True)
    assert mix_of(anew) == ([1, 2], [0.0, 0.0], 1.0)
    told, report = ElmoModel.from_pretrained(tmp_path, mix_layers=[2], output_loading_info=True)
    assert mix_of(told) == ([2], [0.0], 1.0)
    assert [name for name, *_ in report["mismatched_keys"]] == ["scalar_mix.weights"]


def test_both_mixes_of_a_head(tmp_path: Path) -> None:
    head = random_head(ElmoForTokenClassification, **BOTH)
    head.save_pretrained(tmp_path)
    loaded = AutoModelForTokenClassification.from_pretrained(tmp_path, mix_layers=[2, 1])
    for mix, old in (
        (loaded.elmo.scalar_mix, head.elmo.scalar_mix),
        (loaded.output_scalar_mix, head.output_scalar_mix),
    ):
        assert torch.equal(mix.weights, old.weights[[2, 1]])
        assert torch.equal(mix.gamma, old.gamma)


def test_options_beside_it_and_a_mix_that_is_not_trained(tmp_path: Path) -> None:
    saved(tmp_path, [0.25, -1.0, 2.0])
    model = ElmoModel.from_pretrained(
        tmp_path, mix_layers=[0, 2], mix_trainable=False, mix_layer_norm="token", dtype=torch.float64
    )
    mix = model.scalar_mix
    assert (mix.layer_norm, mix.weights.requires_grad, mix.weights.dtype) == ("token", False, torch.float64)


def test_a_language_model_has_no_mix(tmp_path: Path) -> None:
    random_lm().save_pretrained(tmp_path)
    assert ElmoForPreTraining.from_pretrained(tmp_path, mix_layers=[1]).config.mix_layers == [1]
    assert mix_of(ElmoModel.from_pretrained(tmp_path, mix_layers=[1])) == ([1], [0.0], 1.0)


def test_a_file_that_does_not_fit_its_configuration_is_refused_as_ever(tmp_path: Path) -> None:
    saved(tmp_path, [0.25, -1.0, 2.0])
    weights = load_file(tmp_path / "model.safetensors")
    weights["scalar_mix.weights"] = torch.zeros(2)
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    for config in ({}, {"mix_layers": [1]}, {"config": AutoConfig.from_pretrained(tmp_path)}):
        with pytest.raises(ValueError, match=r"scalar_mix\.weights of another shape"):
            ElmoModel.from_pretrained(tmp_path, **config)
