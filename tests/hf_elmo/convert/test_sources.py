import gzip
import json
import shutil
from pathlib import Path

import pytest
from transformers import AutoModel, AutoTokenizer

from hf_elmo.cli.main import main
from hf_elmo.convert import convert
from tests.hf_elmo.convert.formats import OPTIONS, VOCABULARY, allennlp_state, model_folder, same_parameters
from tests.oracles import random_weights


@pytest.fixture
def plain(tmp_path: Path) -> tuple[Path, Path]:
    """The files, and what converting them one by one makes."""
    source = model_folder(tmp_path / "source")
    convert(source / "options.json", source / "model.hdf5", tmp_path / "plain", vocab_file=source / "vocab.txt")
    return source, tmp_path / "plain"


@pytest.mark.parametrize(
    "form",
    [
        ["source"],
        ["source/model.hdf5", "source/options.json", "source/vocab.txt"],
        ["source/options.json", "source/model.hdf5", "source/vocab.txt"],
        ["source/model.hdf5"],
        ["source/model.hdf5", "source"],
        ["source", "--format", "hdf5"],
    ],
)
def test_every_form_of_the_same_files_is_the_same_model(form: list[str], plain: tuple[Path, Path]) -> None:
    _, expected = plain
    folder = expected.parent
    out = folder / "out"
    arguments = [str(folder / part) if part.startswith("source") else part for part in form]
    assert main(["convert", *arguments, str(out)]) == 0
    assert same_parameters(out, expected)
    assert AutoTokenizer.from_pretrained(out).get_vocab() == AutoTokenizer.from_pretrained(expected).get_vocab()
    assert json.loads((out / "config.json").read_text()) == json.loads((expected / "config.json").read_text())


def test_files_are_known_by_their_content(plain: tuple[Path, Path]) -> None:
    """AllenNLP's cache names files by a checksum."""
    source, expected = plain
    shutil.copy(source / "model.hdf5", expected.parent / "4fd0c3a5")
    shutil.copy(source / "options.json", expected.parent / "b6dac1b7")
    convert(expected.parent / "4fd0c3a5", expected.parent / "b6dac1b7", expected.parent / "out")
    assert same_parameters(expected.parent / "out", expected)


@pytest.mark.parametrize("characters", [261, 262])
def test_published_names_and_character_counts(characters: int, plain: tuple[Path, Path]) -> None:
    source, expected = plain
    (source / "model.hdf5").rename(source / "elmo_2x64_16_weights.hdf5")
    options = {**OPTIONS, "char_cnn": {**OPTIONS["char_cnn"], "n_characters": characters}}
    random_weights.write_options(source / "elmo_2x64_16_options.json", options)
    (source / "options.json").unlink()
    convert(source, expected.parent / "out")
    assert same_parameters(expected.parent / "out", expected)


def test_a_compressed_vocabulary(plain: tuple[Path, Path]) -> None:
    source, expected = plain
    content = (source / "vocab.txt").read_bytes()
    (source / "vocab.txt").unlink()
    (source / "vocab.txt.gz").write_bytes(gzip.compress(content))
    convert(source, expected.parent / "out")
    words = AutoTokenizer.from_pretrained(expected.parent / "out").get_vocab()
    assert sorted(words, key=words.__getitem__)[1:] == VOCABULARY
    assert AutoModel.from_pretrained(expected.parent / "out").config.vocab_size == len(VOCABULARY) + 1


def test_a_folder_with_two_kinds_says_how_to_read_the_other(
    plain: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    source, expected = plain
    state = allennlp_state()
    state["_elmo_lstm._token_embedder._projection.bias"] += 1
    torch.save(state, source / "weights.th")
    assert main(["convert", str(source), str(expected.parent / "out")]) == 0
    assert "for weights.th add --format state-dict" in capsys.readouterr().out
    assert same_parameters(expected.parent / "out", expected)
    assert main(["convert", str(source), str(expected.parent / "other"), "--format", "state-dict"]) == 0
    assert not same_parameters(expected.parent / "other", expected)


def _two_weights(source: Path) -> list[str]:
    shutil.copy(source / "model.hdf5", source / "a.hdf5")
    (source / "model.hdf5").rename(source / "b.hdf5")
    return [str(source)]


def _many_langs(source: Path) -> list[str]:
    (source / "encoder.pkl").touch()
    (source / "token_embedder.pkl").touch()
    return [str(source)]


def _no_options(source: Path) -> list[str]:
    (source / "options.json").unlink()
    return [str(source)]


def _no_weights(source: Path) -> list[str]:
    (source / "model.hdf5").unlink()
    return [str(source)]


def _unknown(source: Path) -> list[str]:
    (source / "thing.bin").write_bytes(b"what is this")
    return [str(source / "thing.bin")]


def _twice(source: Path) -> list[str]:
    shutil.copy(source / "model.hdf5", source / "b.hdf5")
    return [str(source / "model.hdf5"), str(source / "b.hdf5")]


def _several_checkpoints(source: Path) -> list[str]:
    (source / "model.hdf5").unlink()
    (source / "model.ckpt-1.index").touch()
    (source / "model.ckpt-2.index").touch()
    return [str(source)]


@pytest.mark.parametrize(
    ("arrange", "message"),
    [
        (_two_weights, "2 files for the part weights.hdf5: a.hdf5, b.hdf5"),
        (_many_langs, "a model of ELMoForManyLangs"),
        (_no_options, "weights without their options.json"),
        (_no_weights, "got no weights; expected a folder"),
        (_unknown, "a file of no format known"),
        (_twice, "a second file of weights.hdf5"),
        (_several_checkpoints, "2 TensorFlow checkpoints and no file `checkpoint`"),
        (lambda source: [str(source / "gone.hdf5")], "no such file or folder"),
        (lambda source: [str(source), "--format", "tensorflow"], "no weights of the format 'tensorflow'"),
        (lambda source: [str(source / "model.ckpt.data-00000-of-00001")], "model.ckpt.index: no such file"),
        (lambda source: [str(source), "--vocab", str(source / "gone.txt")], "gone.txt: no such file"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(
    arrange, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = model_folder(tmp_path / "source")
    arguments = arrange(source)
    assert main(["convert", *arguments, str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err.strip()
    assert message in said
    assert len(said.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_single_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="paths: got 1; expected one or more sources"):
        convert(tmp_path)
    with pytest.raises(ValueError, match="format: got 'pickle'"):
        convert(tmp_path, tmp_path / "out", format="pickle")
