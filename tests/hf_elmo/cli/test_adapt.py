import pytest

from hf_elmo.cli.main import main, parser


def test_every_flag_is_passed_on():
    flags = ["model", "text", "--bf16", "-h", "--version", "--model", "a=1", "b=2"]
    assert parser().parse_args(["adapt", *flags]).flags == flags


def test_help_is_the_training_s(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["adapt", "--help"])
    text = capsys.readouterr().out
    for flag in ("hf-elmo adapt MODEL CORPUS", "--store_warm_state", "--heldout_share", "--learning_rate"):
        assert flag in text
