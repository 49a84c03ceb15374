"""`hf-elmo embed` hands its flags on; what it writes is tested in tests/hf_elmo/dump."""

import gzip
import io
import sys

import numpy as np
import pytest

from hf_elmo.cli.main import main
from tests.hf_elmo.dump.dumps import (
    NAMES,
    OPTIONS,
    SENTENCES,
    WEIGHTS,
    contents,
    expected,
    names_in,
    read_back,
    text_of,
)
from tests.hf_elmo.models import converted


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("model")
    converted(tmp_path_factory.mktemp("weights"), OPTIONS, WEIGHTS).save_pretrained(folder)
    return str(folder)


@pytest.fixture
def text(tmp_path) -> str:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "text.txt").write_text(text_of(SENTENCES), encoding="utf-8")
    return str(tmp_path / "in" / "text.txt")


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("v.h5", ["--layers", "all"]),
        ("v.parquet", ["--layers", "0,2", "--dtype", "float16"]),
        ("v", ["--layers", "average", "--part-megabytes", "0.001", "--batch-words", "9"]),
        ("v.vectors", ["--layers", "top", "--format", "safetensors"]),
    ],
)
def test_flags(model, text, tmp_path, capsys, name, flags):
    out = tmp_path / "out" / name
    assert main(["embed", text, "--out", str(out), "--model", model, *flags]) == 0
    captured = capsys.readouterr().out
    assert "1 words have more bytes than the model reads" in captured
    assert f"7 sentences, 25 words written to {out}" in captured
    layers = (0, 2) if flags[1] == "0,2" else flags[1]
    for (_, vectors), right in zip(read_back(out), expected(SENTENCES, layers), strict=True):
        np.testing.assert_allclose(vectors, right, atol=2e-3 if "float16" in flags else 1e-5)


def test_standard_input_and_gzip(model, text, tmp_path, monkeypatch):
    packed = tmp_path / "text.txt.gz"
    packed.write_bytes(gzip.compress(text_of(SENTENCES).encode()))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text_of(SENTENCES).encode())))
    for name, source in (("plain", text), ("gz", str(packed)), ("stdin", "-")):
        assert main(["embed", source, "--out", str(tmp_path / f"{name}.h5"), "--model", model]) == 0
    assert contents(tmp_path / "plain.h5") == contents(tmp_path / "gz.h5") == contents(tmp_path / "stdin.h5")


def test_raw_text(model, tmp_path):
    (tmp_path / "raw.txt").write_text("The dog didn't bark. It slept.\n")
    flags = ["--raw", "--layout", "paragraphs", "--model", model]
    assert main(["embed", str(tmp_path / "raw.txt"), "--out", str(tmp_path / "v"), *flags]) == 0
    sentences = [["The", "dog", "did", "n't", "bark", "."], ["It", "slept", "."]]
    assert [words for words, _ in read_back(tmp_path / "v")] == sentences


@pytest.mark.parametrize("flags", [[], ["--model", "default"]])
def test_the_package_has_a_model(text, tmp_path, monkeypatch, flags):
    monkeypatch.chdir(tmp_path)
    assert main(["embed", text, "--out", str(tmp_path / "v"), *flags]) == 0
    assert [vectors.shape for _, vectors in read_back(tmp_path / "v")] == [(len(words), 256) for words in SENTENCES]


@pytest.mark.parametrize("name", NAMES.values())
def test_what_is_there_stays(model, text, tmp_path, capsys, name):
    out = tmp_path / "out" / name
    command = ["embed", text, "--out", str(out), "--model", model]
    assert main(command) == 0
    before = contents(out)
    assert main([*command, "--layers", "top"]) == 2
    assert "is there already; choose another name, or replace it with --overwrite" in capsys.readouterr().err
    assert contents(out) == before
    assert main([*command, "--resume"]) == 0
    assert f"was complete already in {out}" in capsys.readouterr().out
    assert main([*command, "--layers", "top", "--overwrite"]) == 0
    assert contents(out) != before
    assert names_in(tmp_path / "out") == [name]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--layers", "bottom"], "layers: got 'bottom'; expected all, top, average, mix, or numbers"),
        (["--layers", "3"], "layers: got (3,); expected all, top, average, mix, or numbers of layers from 0"),
        (["--part-megabytes", "-1"], "part_megabytes: got -1.0"),
        (["--workers", "2"], "workers: got 2"),
        (["--layout", "wrapped"], "got one without --raw"),
        (["--device", "nonsense"], "device: got 'nonsense'"),
    ],
)
def test_flags_that_do_not_fit(model, text, tmp_path, capsys, flags, message):
    assert main(["embed", text, "--out", str(tmp_path / "out" / "v"), "--model", model, *flags]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "out").exists() or names_in(tmp_path / "out") == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"fine\ncaf\xe9\n", "line 2: got bytes e9 0a at byte 3 of the line; expected UTF-8 text"),
        ("a \ud800".encode("utf-8", "surrogatepass"), "line 1: got bytes ed a0 80 at byte 2"),
    ],
)
def test_lines_that_are_no_text(model, tmp_path, capsys, content, message):
    (tmp_path / "text.txt").write_bytes(content)
    assert main(["embed", str(tmp_path / "text.txt"), "--out", str(tmp_path / "v.h5"), "--model", model]) == 2
    assert message in capsys.readouterr().err
    assert names_in(tmp_path) == ["text.txt"]


def test_no_text_and_no_model(model, text, tmp_path, capsys):
    assert main(["embed", str(tmp_path / "missing"), "--out", str(tmp_path / "v.h5"), "--model", model]) == 2
    assert "missing: no such file; expected a text file" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["embed", text, "--out", str(tmp_path / "v.h5"), "--model", str(tmp_path / "empty")]) == 2
    assert "without a config.json" in capsys.readouterr().err
    assert names_in(tmp_path) == ["empty", "in"]
