import pytest

from hf_elmo.pretraining.adapt_options import parse_adapt_arguments
from hf_elmo.pretraining.arguments import recipe_path

BASE = ["model", "corpus", "--output_dir", "out", "--use_cpu"]


def test_the_recipe_is_adapt_and_flags_go_over_it():
    parsed = parse_adapt_arguments(BASE)
    assert (parsed.model, list(parsed.corpus)) == ("model", ["corpus"])
    assert recipe_path("adapt").is_file()
    training = parsed.training
    assert (training.learning_rate, training.num_train_epochs, training.lr_scheduler_type) == (0.001, 1, "cosine")
    assert (training.max_steps, training.report_to) == (-1, [])
    assert parse_adapt_arguments([*BASE, "--learning_rate", "0.5"]).training.learning_rate == 0.5


def test_a_recipe_of_one_s_own(tmp_path):
    (tmp_path / "r.yaml").write_text("head_warm_up_steps: 7\nvocabulary: new\nmin_count: 3\nmodel: {dropout: 0.3}\n")
    parsed = parse_adapt_arguments([*BASE, "--recipe", str(tmp_path / "r.yaml"), "--model", "lm_softmax=full"])
    assert (parsed.options.head_warm_up_steps, parsed.options.vocabulary, parsed.text.min_count) == (7, "new", 3)
    assert parsed.changes == {"dropout": 0.3, "lm_softmax": "full"}


def test_options_of_raw_text():
    parsed = parse_adapt_arguments(["m", "a", "b=x", *BASE[2:], "--heldout", "c", "d", "--heldout-share", "0.1"])
    assert list(parsed.corpus) == ["a", "b=x"]
    assert parsed.text.heldout == ["c", "d"]
    assert parsed.text.given() == ["heldout", "heldout_share"]
    assert parse_adapt_arguments([*BASE, "--processes", "3"]).text.given() == []


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--model", "lstm_size=3"], "got lstm_size, which belongs to the weights of model; expected one of dropout"),
        (["--model", "dropout"], "got 'dropout'; expected NAME=VALUE"),
        (["--head_warm_up_steps", "-1"], "head_warm_up_steps: got -1"),
        (["--warm_state_tokens", "-1"], "warm_state_tokens: got -1"),
        (["--max_steps", "0"], "max_steps: got 0, which trains nothing"),
        (["--max_steps", "0", "--store_warm_state", "--vocabulary", "new"], "together with a new vocabulary"),
        (["--max_steps", "0", "--store_warm_state", "--head_warm_up_steps", "3"], "together with a new vocabulary"),
        (["--recipe", "default"], "which belongs to the weights"),
        (["--output_dir", __file__], "a file; expected a new folder"),
    ],
)
def test_refused(flags, message):
    with pytest.raises(ValueError, match=message):
        parse_adapt_arguments([*BASE, *flags])


@pytest.mark.parametrize("arguments", [["m", "c"], ["m", "--output_dir", "o"], [*BASE, "--lstm_size", "3"], []])
def test_that_the_parser_finds(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        parse_adapt_arguments(arguments)
    assert "usage: hf-elmo adapt MODEL CORPUS" in capsys.readouterr().err
