"""Learnt layer weights of models and of their folders, and the command that shows them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from hf_elmo import ElmoForTokenClassification, ElmoModel
from hf_elmo.cli.main import main
from hf_elmo.tasks.mix_weights import learnt_mixes, saved_mixes
from tests.hf_elmo.models import random_head, tiny_config


def head(**changes: object) -> ElmoForTokenClassification:
    model = random_head(ElmoForTokenClassification, classifier_num_layers=1, **changes)
    with torch.no_grad():
        model.elmo.scalar_mix.weights.copy_(torch.arange(len(model.elmo.scalar_mix.weights)).float())
        model.elmo.scalar_mix.gamma.fill_(2.5)
    return model


def test_one_mix_of_some_layers(tmp_path: Path) -> None:
    model = head(mix_layers=[0, 2])
    shares, gamma = learnt_mixes(model, "NER")["NER"]
    assert shares[1] is None
    assert gamma == 2.5
    np.testing.assert_allclose([shares[0], shares[2]], [1 / (1 + np.e), np.e / (1 + np.e)], rtol=1e-6)  # type: ignore[arg-type]
    model.save_pretrained(tmp_path)
    assert saved_mixes(tmp_path, "NER") == learnt_mixes(model, "NER")


@pytest.mark.parametrize(("placement", "rows"), [("both", ["x: input", "x: output"]), ("output", ["x: output"])])
def test_where_mixes_are(placement: str, rows: list[str], tmp_path: Path) -> None:
    model = head(elmo_placement=placement)
    model.save_pretrained(tmp_path)
    assert sorted(learnt_mixes(model, "x")) == rows
    assert saved_mixes(tmp_path, "x") == learnt_mixes(model, "x")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head().save_pretrained(tmp_path / "ner")
    out = tmp_path / "weights.svg"
    arguments = ["layer-weights", str(tmp_path / "ner"), f"chunks={tmp_path / 'ner'}"]
    assert main([*arguments, "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "chunks" in shown
    assert "0.665" in shown  # e² / (1 + e + e²)
    assert "<svg" in out.read_text(encoding="utf-8")
    assert main([*arguments, str(tmp_path / "ner")]) == 2
    assert "got a second 'ner'; expected NAME=FOLDER" in capsys.readouterr().err
    assert main(["layer-weights", str(tmp_path)]) == 2
    assert "holds no config.json" in capsys.readouterr().err
    assert main([*arguments, "--out", "weights.txt"]) == 2
    assert "expected a name that ends in .png, .svg or .pdf" in capsys.readouterr().err


def test_a_model_without_a_mix(tmp_path: Path) -> None:
    ElmoModel(tiny_config(), add_scalar_mix=False).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="got a model without a scalar mix"):
        saved_mixes(tmp_path, "x")
