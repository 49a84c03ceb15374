"""`hf-elmo train-classifier` from files to a model that a pipeline loads."""

import json
from pathlib import Path

import pytest
from transformers import pipeline

from hf_elmo.cli.main import main
from hf_elmo.tasks.classification import classification_metrics
from tests.hf_elmo.tasks.folders import flags, texts

pytest.importorskip("sklearn", reason='needs the extra: pip install "spacy-elmo[train]"')
JSONL = ("train.jsonl", "dev.jsonl")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classification")
    for number, name in enumerate((*JSONL, "test.jsonl")):
        (folder / name).write_text(texts(60 if not number else 20, seed=number), encoding="utf-8")
    trees = [f"({c} (2 It) ({c} (2 is) ({c} {w})))" for c, w in ((0, "bad"), (4, "good"), (2, "old"))] * 20
    (folder / "trees.txt").write_text("\n".join(trees), encoding="utf-8")
    return folder


def test_metrics_by_hand() -> None:
    """a: precision 1, recall 1/2; b: 1/2 and 1; c is never there and never found."""
    metrics = classification_metrics(["a", "a", "b"], ["a", "b", "b"], ["a", "b", "c"])
    assert metrics == pytest.approx({"accuracy": 2 / 3, "macro_f1": (2 / 3 + 2 / 3 + 0) / 3})


@pytest.mark.slow
def test_from_json_lines_to_a_pipeline(place: Path) -> None:
    run = flags(place, "bilstm", "--encoder", "bilstm", "--classifier_lstm_size", "8", files=(*JSONL, "test.jsonl"))
    assert main(["train-classifier", *run]) == 0
    assert json.loads((place / "bilstm" / "metrics.json").read_text())["test_accuracy"] > 0.8
    rows = (place / "bilstm" / "test_predictions.tsv").read_text().splitlines()
    assert (rows[0], len(rows)) == ("gold\tpredicted", 21)
    classify = pipeline("text-classification", str(place / "bilstm"))
    assert [found["label"] for found in classify(["the old dog hears Anna", "the old dog hears it"])] == [
        "name",
        "none",
    ]
    assert '"A sentence ."' in (place / "bilstm" / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_pairs_with_the_papers_network_and_without_elmo(place: Path) -> None:
    more = ["--text_pair_column", "second", "--is_split_into_words", "--classifier_lstm_size", "8"]
    for out, extra in (
        ("pairs", ["--encoder", "biattention", "--num_train_epochs", "20"]),
        ("static", ["--no_elmo", "--encoder", "linear"]),
    ):
        assert main(["train-classifier", *flags(place, out, *more, *extra, files=JSONL)]) == 0
        assert json.loads((place / out / "metrics.json").read_text())["eval_accuracy"] > 0.8
    rows = [json.loads(line) for line in (place / "dev.jsonl").read_text().splitlines()]
    found = pipeline("text-classification", str(place / "pairs"))(
        [{"text": row["text"], "text_pair": row["second"]} for row in rows]
    )
    right = sum(one["label"] == row["label"] for one, row in zip(found, rows, strict=True))
    assert json.loads((place / "pairs" / "metrics.json").read_text())["eval_accuracy"] == pytest.approx(right / 20)
    assert '"text_pair": ' in (place / "pairs" / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_two_classes_of_trees_and_their_phrases(place: Path) -> None:
    more = ("--encoder", "linear", "--pooling", "mean", "--num_classes", "2", "--phrases")
    assert main(["train-classifier", *flags(place, "sst2", *more, files=("trees.txt", "trees.txt"))]) == 0
    assert json.loads((place / "sst2" / "metrics.json").read_text())["eval_accuracy"] == 1.0
    card = (place / "sst2" / "README.md").read_text(encoding="utf-8")
    assert "| training examples | 120 |" in card  # three phrases with a polarity in each of 40 trees
    assert "| classes | `negative`, `positive` |" in card


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            ["--label_column", "gold"],
            "train.jsonl: line 1: got no 'gold'; expected it beside 'text', 'second', 'label'",
        ),
        (["--file_format", "csv"], "got no 'text'"),
        (["--validation_file", "x.dat"], "x.dat: got a name that ends in 'dat'; expected --file_format"),
        (["--phrases", "--train_share", "0.5"], "phrases: got it without a validation_file or with a train_share"),
        (["--label_column", "second"], "got the class 'the dog .' only; expected two or more"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    changes: list[str], message: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train-classifier", *flags(place, "wrong", files=JSONL), *changes]) == 2
    error = capsys.readouterr().err
    assert error.startswith("hf-elmo train-classifier: ")
    assert message in error


def test_a_class_that_training_does_not_have(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "other.jsonl").write_text('{"text": "x", "label": "odd"}\n')
    assert main(["train-classifier", *flags(place, "wrong", files=("train.jsonl", "other.jsonl"))]) == 2
    assert "validation_file: got the class 'odd'; expected those of the training data: name, none" in (
        capsys.readouterr().err
    )
