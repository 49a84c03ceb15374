"""`hf-elmo train-ner` from files to a model that a pipeline loads."""

import json
import runpy
import sys
from pathlib import Path

import pytest
import torch
from transformers import pipeline

from hf_elmo import ElmoForTokenClassification
from hf_elmo.cli.main import main
from hf_elmo.model_source import load_model
from hf_elmo.tasks.baseline import BaselineForTokenClassification
from hf_elmo.tasks.conll import read_conll
from hf_elmo.tasks.tag_metrics import span_metrics
from tests.hf_elmo.tasks.folders import conll, flags

pytest.importorskip("seqeval", reason='needs the extra: pip install "spacy-elmo[train]"')


FILES = ("train.txt", "dev.txt", "test.txt")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ner")
    for number, name in enumerate(("train.txt", "dev.txt", "test.txt")):
        (folder / name).write_text(conll(60 if name == "train.txt" else 20, seed=number), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def trained(place: Path) -> Path:
    """A CRF on a biLSTM, ELMo in two places."""
    more = ("--use_crf", "--elmo_placement", "both", "--classifier_lstm_size", "8", "--data_name", "Names")
    assert main(["train-ner", *flags(place, "crf", *more, files=FILES)]) == 0
    return place / "crf"


def test_it_learns_and_reports(trained: Path, place: Path) -> None:
    metrics = json.loads((trained / "metrics.json").read_text())
    assert metrics["test_f1"] > 0.8  # at chance less than 0.3
    rows = [line.split("\t") for line in (trained / "test_predictions.conll").read_text().split("\n") if line]
    assert [row[0] for row in rows] == [w for sentence in read_conll(place / "test.txt") for w in sentence.words]
    counted = span_metrics([[row[1] for row in rows]], [[row[2] for row in rows]])
    assert counted["accuracy"] == pytest.approx(metrics["test_accuracy"])


def test_the_best_epoch_is_kept(trained: Path) -> None:
    log = json.loads((trained / "training_log.json").read_text())
    best = max(entry["eval_f1"] for entry in log if "eval_f1" in entry)
    assert json.loads((trained / "metrics.json").read_text())["eval_f1"] == best


def test_the_card(trained: Path) -> None:
    card = (trained / "README.md").read_text(encoding="utf-8")
    assert "pipeline_tag: token-classification" in card
    assert "name: Names" in card
    assert "hf-elmo train-ner --train_file" in card
    assert "the frozen biLM read every sentence once" in card
    assert "| token classification: input | 0." in card
    assert "| token classification: output | 0." in card
    assert "aggregation_strategy=" in card
    assert "| training sentences | 60 with " in card


def test_the_figures(trained: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("layer_weights.png", "learning_curve.png"):
        assert (trained / name).read_bytes()[:4] == b"\x89PNG"


def test_a_pipeline_loads_it(trained: Path) -> None:
    tagger = pipeline("token-classification", str(trained), aggregation_strategy="simple")
    found = tagger("the old dog hears Anna and Mary and sees Oslo")
    assert ("Anna", "PER") in [(entity["word"], entity["entity_group"]) for entity in found]


def test_the_bilm_is_the_one_it_was(trained: Path) -> None:
    head, elmo = ElmoForTokenClassification.from_pretrained(trained), load_model()
    for name, tensor in elmo.state_dict().items():
        if not name.startswith("scalar_mix."):
            assert torch.equal(head.elmo.state_dict()[name], tensor), name
    assert not torch.equal(head.elmo.scalar_mix.weights, elmo.scalar_mix.weights)


def test_the_mix_reads_some_layers_only(place: Path) -> None:
    """The fields of a head that `--model` sets, as docs/scripts.md writes them."""
    more = ("--encoder", "linear", "--num_train_epochs", "1", "--model", "mix_layers=[0,1]", "mix_layer_norm=token")
    assert main(["train-ner", *flags(place, "mix", *more, files=FILES)]) == 0
    tagger = ElmoForTokenClassification.from_pretrained(place / "mix")
    assert tagger.config.mix_layer_norm == "token"
    assert tagger.elmo.scalar_mix.layers == [0, 1]
    assert tagger.elmo.scalar_mix.weights.abs().sum() > 0
    assert "| token classification | 0." in (place / "mix" / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_layers_are_computed_once_and_give_the_same_training(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    more = ("--encoder", "linear", "--seed", "1", "--layer_cache", str(place / "cache"))
    metrics = []
    for out, gigabytes in (("with", "1"), ("without", "0"), ("again", "1")):
        caplog.clear()
        with caplog.at_level("INFO"):
            run = flags(place, out, *more, "--layer_cache_gigabytes", gigabytes, files=FILES)
            assert main(["train-ner", *run]) == 0
        metrics.append(json.loads((place / out / "metrics.json").read_text()))
        said = [message for message in caplog.messages if message.startswith("Layer cache")]
        sentences = {tuple(s.words) for name in FILES for s in read_conll(place / name)}
        if out == "without":
            assert not said
            assert "computed anew in every epoch: it is off" in caplog.text
        else:
            assert said[0].endswith(f"{len(sentences) if out == 'with' else 0} computed.")
    for other in metrics[1:]:
        assert other["eval_loss"] == pytest.approx(metrics[0]["eval_loss"], rel=1e-3)
        assert other["eval_f1"] == pytest.approx(metrics[0]["eval_f1"], abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("vectors", [True, False])
def test_without_elmo(vectors: bool, place: Path) -> None:
    (place / "vectors.txt").write_text("mary 1 0 0\nanna 1 0 0.1\npeter 0.9 0 0\noslo 0 1 0\nrome 0 1 0.1\n")
    more = ["--no_elmo", "--encoder", "linear", *(["--word_vectors", str(place / "vectors.txt")] if vectors else [])]
    out = f"static-{vectors}"
    assert main(["train-ner", *flags(place, out, *more, files=FILES)]) == 0
    assert json.loads((place / out / "metrics.json").read_text())["test_f1"] > 0.8
    model = pipeline("token-classification", str(place / out)).model
    assert isinstance(model, BaselineForTokenClassification)
    assert model.config.word_vector_size == (3 if vectors else 100)
    assert "static word vectors of" in (place / out / "README.md").read_text()


@pytest.mark.slow
def test_parts_of_speech_and_a_held_out_tenth(place: Path) -> None:
    run = flags(place, "pos", "--tag_column", "1", "--encoder", "linear", files=FILES[:1])
    assert main(["train-ner", *run]) == 0
    metrics = json.loads((place / "pos" / "metrics.json").read_text())
    assert metrics["eval_accuracy"] > 0.8
    assert "eval_f1" not in metrics
    card = (place / "pos" / "README.md").read_text(encoding="utf-8")
    assert "a tenth of the training file, held out" in card
    assert "| validation sentences | 6 with " in card


@pytest.mark.slow
def test_fine_tuning_and_bioes(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    more = ("--freeze_bilm", "false", "--tag_scheme", "bioes", "--max_steps", "2")
    with caplog.at_level("INFO"):
        assert main(["train-ner", *flags(place, "tuned", *more, files=FILES[:2])]) == 0
    assert "computed anew in every epoch: the biLM is trained too" in caplog.text
    config = json.loads((place / "tuned" / "config.json").read_text())
    assert set(config["label2id"]) >= {"O", "S-PER", "S-LOC"}


@pytest.mark.slow
def test_resuming(place: Path) -> None:
    """A run that was stopped after two epochs goes on to the same end."""
    more = ("--encoder", "linear", "--early_stopping_patience", "0", "--save_total_limit", "9")
    assert main(["train-ner", *flags(place, "whole", *more, files=FILES[:2])]) == 0
    more += ("--resume_from_checkpoint", str(place / "whole" / "checkpoint-30"))
    resumed = flags(place, "whole", *more, files=FILES[:2])
    before = json.loads((place / "whole" / "metrics.json").read_text())
    assert main(["train-ner", *resumed]) == 0
    after = json.loads((place / "whole" / "metrics.json").read_text())
    assert after["eval_loss"] == pytest.approx(before["eval_loss"], rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--train_file", "missing.txt"], "missing.txt: no such file"),
        (["--tag_column", "7"], "line 3: got 3 columns; expected tag_column = 7 from -3 to 2"),
        (["--tag_column", "1", "--word_column", "-2"], "of which word_column and tag_column are the same"),
        (
            ["--encoder", "linear", "--elmo_placement", "both"],
            "elmo_placement: got 'both' for a classifier right on ELMo",
        ),
        (["--model_name_or_path", "nowhere"], "nowhere"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    changes: list[str], message: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["train-ner", *flags(place, "wrong", files=FILES[:2], small="--use_cpu true --max_steps 1"), *changes])
        == 2
    )
    error = capsys.readouterr().err
    assert error.startswith("hf-elmo train-ner: ")
    assert message in error
    assert "Traceback" not in error
    assert not (place / "wrong" / "config.json").exists()


def test_a_model_is_not_written_over(trained: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train-ner", *flags(place, "crf", files=FILES[:2])]) == 2
    assert "which holds a model; expected a new folder" in capsys.readouterr().err


def test_malformed_lines_are_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "broken.txt").write_text("a X O\nb O\n")
    assert main(["train-ner", *flags(place, "broken", files=("train.txt", "broken.txt"))]) == 2
    assert "broken.txt: line 2: got 2 columns ('b O'); expected 3, as in line 1" in capsys.readouterr().err


def test_the_scripts_are_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Path(__file__).parents[3] / "training"
    for name in ("ner", "classification", "qa"):
        monkeypatch.setattr(sys, "argv", [f"run_{name}.py", "--help"])
        with pytest.raises(SystemExit) as stop:
            runpy.run_path(str(training / f"run_{name}.py"), run_name="__main__")
        assert stop.value.code == 0
