import gzip
from pathlib import Path

import pytest

from hf_elmo.convert.old_vocabulary import read_old_vocabulary
from hf_elmo.vocabulary_file import check_vocabulary

BEGIN = "<S>\n</S>\n<UNK>\n"


def _read(folder: Path, content: bytes, name: str = "vocab.txt") -> tuple[list[str], list[str]]:
    (folder / name).write_bytes(content)
    return read_old_vocabulary(folder / name)


def test_a_sound_file_is_read_as_it_is(tmp_path: Path) -> None:
    words, notes = _read(tmp_path, f"{BEGIN}the\nnaïve\n".encode())
    assert (words, notes) == (["<S>", "</S>", "<UNK>", "the", "naïve"], [])
    assert _read(tmp_path, f"{BEGIN}the\nnaïve".encode())[0] == words
    assert _read(tmp_path, f"{BEGIN}the\nnaïve\n".replace("\n", "\r\n").encode("utf-8-sig"))[0] == words
    assert _read(tmp_path, f"{BEGIN}the\n!!!MAXTERMID\nnaïve\n".encode())[0] == words


@pytest.mark.parametrize("name", ["vocab.txt.gz", "vocab.txt"])
def test_a_compressed_file_whatever_its_name(name: str, tmp_path: Path) -> None:
    assert _read(tmp_path, gzip.compress(f"{BEGIN}東京\n".encode()), name)[0][3:] == ["東京"]


def test_latin_1_is_said(tmp_path: Path) -> None:
    words, notes = _read(tmp_path, f"{BEGIN}naïve\n".encode("latin-1"))
    assert words[3:] == ["naïve"]
    assert notes == ["vocab.txt: is not UTF-8; read as Latin-1"]


def test_every_line_keeps_its_row(tmp_path: Path) -> None:
    """The original finds the last of two equal words; the rows of the others are never found."""
    words, notes = _read(tmp_path, f"{BEGIN}a\n\nb\n\u00a0a\n\u3000\n<pad>\n".encode())
    assert words[3:] == ["<row-3>", "<row-4>", "b", "a", "<row-7>", "<row-8>"]
    check_vocabulary(("", word) for word in words)
    (note,) = notes
    assert note.startswith("vocab.txt: 4 lines are empty")


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"vocab\.txt, line 1: got 'the', expected '<S>'"):
        _read(tmp_path, b"the\n<S>\n")
    with pytest.raises(ValueError, match=r"cannot be decompressed, the file is damaged or cut off"):
        _read(tmp_path, gzip.compress(BEGIN.encode())[:-9])
    with pytest.raises(FileNotFoundError, match=r"gone\.txt: no such file"):
        read_old_vocabulary(tmp_path / "gone.txt")


def test_a_compressed_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hf_elmo.convert.old_vocabulary.LARGEST_VOCABULARY", 1000)
    with pytest.raises(ValueError, match="got more than 1000 bytes"):
        _read(tmp_path, gzip.compress(BEGIN.encode() + b"a" * 2000))
