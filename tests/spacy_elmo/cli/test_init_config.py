import pytest

from spacy_elmo.cli.main import main
from spacy_elmo.config_template import build_config, commented


def test_it_writes_what_the_template_says(tiny_folder, tmp_path, capsys):
    output = tmp_path / "new" / "config.cfg"
    arguments = ["--pipeline", "ner, tagger", "--lang", "de", "--model", str(tiny_folder), "--output-mix"]
    assert main(["init-config", *arguments, "--output", str(output)]) == 0
    expected = build_config(pipeline=["ner", "tagger"], lang="de", model=str(tiny_folder), output_mix=True)
    assert output.read_text(encoding="utf-8") == commented(expected)
    assert [path.name for path in output.parent.iterdir()] == ["config.cfg"]
    assert f"spacy train {output}" in capsys.readouterr().err


def test_without_a_file_the_terminal_shows_it(tiny_folder, capsys):
    assert main(["init-config", "--model", str(tiny_folder), "--fine-tune", "--gpu"]) == 0
    expected = build_config(pipeline=["ner"], model=str(tiny_folder), fine_tune=True, gpu=True)
    assert capsys.readouterr().out == commented(expected)


def test_a_file_is_replaced_on_request_only(tiny_folder, tmp_path, capsys):
    output = tmp_path / "config.cfg"
    output.write_text("mine")
    arguments = ["init-config", "--model", str(tiny_folder), "--output", str(output)]
    assert main(arguments) == 2
    assert "is there already" in capsys.readouterr().err
    assert output.read_text() == "mine"
    assert main([*arguments, "--force"]) == 0
    assert "[components.elmo]" in output.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pipeline", "nre"], "pipeline: got 'nre'"),
        (["--pipeline", ""], "pipeline: got ''"),
        (["--lang", "nowhere"], "nowhere"),
        (["--model", "/no/such/folder"], "/no/such/folder"),
    ],
)
def test_what_is_wrong_is_named(monkeypatch, capsys, arguments, message):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert main(["init-config", *arguments]) == 2
    assert message in capsys.readouterr().err
