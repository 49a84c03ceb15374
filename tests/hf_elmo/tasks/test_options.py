"""Flags and configuration files of the training commands."""

from pathlib import Path

import pytest

from hf_elmo.tasks.classification import ClassificationOptions
from hf_elmo.tasks.data_sets import drawn, held_out
from hf_elmo.tasks.ner import NerOptions
from hf_elmo.tasks.options import OF_THE_TASK, parse_task_arguments

NEEDED = ["--train_file", "a.txt", "--output_dir", "out"]


def parsed(*flags: str, kind: type = NerOptions):  # type: ignore[no-untyped-def]
    return parse_task_arguments(kind, [*NEEDED, *flags], prog="hf-elmo train-ner", description="")


def test_defaults_and_flags(tmp_path: Path) -> None:
    options, training, changes = parsed("--use_crf", "--freeze_bilm", "false", "--model", "mix_layers=[0,1]")
    assert (options.use_crf, options.freeze_bilm, training.eval_strategy) == (True, False, "epoch")
    assert (training.metric_for_best_model, training.greater_is_better) == (OF_THE_TASK, True)
    assert changes["mix_layers"] == [0, 1]
    assert (changes["use_crf"], changes["freeze_bilm"], changes["classifier_num_layers"]) == (True, False, 1)
    assert parsed("--encoder", "linear")[2]["classifier_num_layers"] == 0


def test_flags_go_over_a_file(tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_text("encoder: linear\nlearning_rate: 1e-2\nmodel: {mix_layer_norm: token}\n", encoding="utf-8")
    options, training, changes = parsed("--config", str(path), "--learning_rate", "0.5")
    assert (options.encoder, training.learning_rate, changes["mix_layer_norm"]) == ("linear", 0.5, "token")


def test_the_classifiers_network() -> None:
    _, _, changes = parsed("--encoder", "biattention", kind=ClassificationOptions)
    assert (changes["pooling"], changes["classifier_num_layers"], changes["sentence_pairs"]) == (
        "biattention",
        0,
        False,
    )
    flags = ("--encoder", "bilstm", "--pooling", "mean", "--text_pair_column", "second", "--classifier_num_layers", "2")
    _, _, changes = parsed(*flags, kind=ClassificationOptions)
    assert (changes["pooling"], changes["classifier_num_layers"], changes["sentence_pairs"]) == ("mean", 2, True)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--train_share", "0"], "train_share: got 0.0; expected more than 0, and at most 1"),
        (["--word_vectors", "v.txt"], "word_vectors: got a file without --no_elmo"),
        (["--no_elmo", "--elmo_placement", "both"], "elmo_placement: got 'both' with --no_elmo"),
        (["--no_elmo", "--word_vector_size", "0"], "word_vector_size: got 0"),
        (["--layer_cache_gigabytes", "-1"], "layer_cache_gigabytes: got -1.0"),
        (["--classifier_num_layers", "0"], "classifier_num_layers: got 0"),
        (["--model", "lstm_size=3"], "--model: got lstm_size, which is no field of a head"),
        (["--model", "use_crf"], "--model: got 'use_crf'; expected NAME=VALUE"),
    ],
)
def test_options_out_of_range(flags: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parsed(*flags)


def test_a_configuration_that_is_none() -> None:
    with pytest.raises(FileNotFoundError, match="--config: got 'adapt'; expected a YAML file"):
        parsed("--config", "adapt")


def test_shares_of_the_data() -> None:
    """Each smaller share is part of the larger one, all in the file's order; what is held out is a tenth."""
    examples = list(range(100))
    small, large = drawn(examples, 0.1, seed=3), drawn(examples, 0.5, seed=3)
    assert (len(small), len(large), drawn(examples, 1.0, seed=3)) == (10, 50, examples)
    assert set(small) < set(large)
    assert sorted(small) == small != drawn(examples, 0.1, seed=4)
    rest, tenth = held_out(examples, seed=3)
    assert (len(tenth), sorted([*rest, *tenth])) == (10, examples)
    with pytest.raises(ValueError, match="validation_file: got none, and one example only"):
        held_out([1], seed=0)
