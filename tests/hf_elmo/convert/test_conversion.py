from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from hf_elmo.cli.main import main
from hf_elmo.convert.conversion import convert, load_original
from tests.hf_elmo.models import original_files
from tests.oracles import random_weights

OPTIONS = random_weights.options("tiny")
WEIGHTS = random_weights.random_weights(OPTIONS, seed=0)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return original_files(tmp_path, OPTIONS, WEIGHTS)


def test_the_folder_loads_and_computes_the_same(files: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["convert", *map(str, files), str(out)]) == 0
    model, tokenizer = AutoModel.from_pretrained(out), AutoTokenizer.from_pretrained(out)
    batch = tokenizer([["The", "dog", "barks"], ["Hi"]], is_split_into_words=True, padding=True, return_tensors="pt")
    original, _ = load_original(*files)
    with torch.no_grad():
        torch.testing.assert_close(model(**batch).last_hidden_state, original(**batch).last_hidden_state)
    others = sorted(path.name for path in out.iterdir() if path.suffix not in (".json", ".txt"))
    assert others == ["hf_elmo_classes.py", "model.safetensors"]


def test_with_a_vocabulary_words_have_ids(files: tuple[Path, Path], tmp_path: Path) -> None:
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("<S>\n</S>\n<UNK>\nthe\ndog\n", encoding="utf-8")
    convert(*files, tmp_path / "out", vocab_file=vocabulary)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer([["dog", "the", "cat"]], is_split_into_words=True)["input_ids"] == [[1, 5, 4, 3, 2]]
    assert AutoModel.from_pretrained(tmp_path / "out").config.vocab_size == 6


def test_without_a_vocabulary_there_are_the_four_special_words(files: tuple[Path, Path], tmp_path: Path) -> None:
    convert(*files, tmp_path / "out")
    assert AutoModel.from_pretrained(tmp_path / "out").config.vocab_size == 4


@pytest.mark.parametrize("what", ["weights", "options", "vocab", "out"])
def test_bad_input_ends_with_one_line_and_leaves_nothing(
    what: str, files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options, weights = files
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("<S>\n</S>\n<UNK>\nthe\n", encoding="utf-8")
    out = tmp_path / "out"
    if what == "weights":
        weights.write_bytes(weights.read_bytes()[:5000])
    elif what == "options":
        options.write_text(options.read_text().replace('"dim": 64', '"dim": 63'))
    elif what == "vocab":
        vocabulary.write_text("the\n<S>\n", encoding="utf-8")
    else:
        out.mkdir()
        (out / "precious").write_text("mine")
    before = sorted(path.name for path in tmp_path.iterdir())
    capsys.readouterr()
    assert main(["convert", str(options), str(weights), str(out), "--vocab", str(vocabulary)]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("hf-elmo convert: ")
    assert len(said.err.strip().splitlines()) == 1
    assert str(tmp_path) in said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    if what == "out":
        assert (out / "precious").read_text() == "mine"


def test_into_the_folder_that_a_link_names(files: tuple[Path, Path], tmp_path: Path) -> None:
    real = tmp_path / "disk" / "real"
    real.mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    convert(*files, tmp_path / "link")
    assert (tmp_path / "link").readlink() == real
    assert (real / "config.json").is_file()
    assert [path.name for path in real.parent.iterdir()] == ["real"]


def test_into_the_working_directory(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    assert main(["convert", *map(str, files), "."]) == 0
    assert capsys.readouterr().out.endswith("written to .\n")
    AutoModel.from_pretrained(Path.cwd())
