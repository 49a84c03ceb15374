"""The commands of docs/weights.md run as they stand there."""

import importlib.util
import re
import shutil
import tarfile
from pathlib import Path

import pytest
import torch

from hf_elmo.cli.main import main
from tests.hf_elmo.convert.formats import (
    OPTIONS,
    VOCABULARY,
    allennlp_mix,
    allennlp_state,
    model_folder,
    tensorflow_variables,
    vocabulary_file,
    write_checkpoint,
)
from tests.oracles import random_weights

PAGE = (Path(__file__).parents[1] / "docs" / "weights.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(bash|python)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
COMMANDS = [line for language, block in BLOCKS for line in block.splitlines() if language == "bash"]
OF_TENSORFLOW = [command for command in COMMANDS if re.search(r"bilm-tf-run|my-lm|longer", command)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the page speaks of."""
    folder = model_folder(tmp_path_factory.mktemp("page"), "weights.hdf5")
    with_archive = model_folder(folder / "216")
    shutil.make_archive(str(with_archive), "zip", with_archive)
    torch.save({**allennlp_state(), **allennlp_mix(0, (0.1, 0.2, 0.3), 1.5)}, folder / "weights.th")
    with tarfile.open(folder / "model.tar.gz", "w:gz") as archive:
        archive.add(folder / "weights.th", "weights.th")
        archive.add(folder / "options.json", "fta/model.text_field_embedder.token_embedders.elmo.options_file")
    (folder / "texts").mkdir()
    for number in range(20):
        text = f"{' '.join(VOCABULARY[3:])} and text number {number}. Another sentence follows. " * 3
        (folder / "texts" / f"{number}.txt").write_text(text, encoding="utf-8")
    return folder


def _run(commands: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for command in commands:
        program, *arguments = command.split()
        assert program == "hf-elmo"
        assert main(arguments) == 0, command


def test_commands_without_tensorflow(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = [command for command in COMMANDS if command not in OF_TENSORFLOW]
    assert len(commands) >= 6
    _run(commands, place, monkeypatch)
    for name in ("my-elmo", "my-elmo-with-words", "from-archive", "from-state-dict", "from-allennlp"):
        assert (place / name / "model.safetensors").is_file()
    assert {path.name for path in (place / "exported").iterdir()} == {"options.json", "weights.hdf5"}


def test_python(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(place)
    (program,) = (block for language, block in BLOCKS if language == "python")
    exec(compile(program, "docs/weights.md", "exec"), {})
    assert capsys.readouterr().out.strip() == "hdf5"
    assert (place / "from-python" / "model.safetensors").is_file()


@pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason='tensorflow is not installed: pip install ".[tensorflow]"'
)
def test_commands_with_tensorflow(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = place / "bilm-tf-run"
    run.mkdir()
    write_checkpoint(run / "model.ckpt-200", tensorflow_variables())
    (run / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-200"\n')
    random_weights.write_options(run / "options.json", {**OPTIONS, "sample_softmax": False, "dropout": 0.1})
    vocabulary_file(run)
    assert len(OF_TENSORFLOW) == 4
    _run(OF_TENSORFLOW, place, monkeypatch)
    assert (place / "longer" / "model.safetensors").is_file()
    assert not (place / "bilm-alone" / "adagrad.safetensors").exists()


def test_commands_of_the_table_are_commands() -> None:
    """Their sources are stand-ins; that they are understood is what is tested."""
    from hf_elmo.cli.main import parser

    found = re.findall(r"\| `(hf-elmo convert [^`]*)` \|", PAGE)
    assert len(found) == 6
    for command in found:
        assert parser().parse_args(command.split()[1:]).command == "convert"
