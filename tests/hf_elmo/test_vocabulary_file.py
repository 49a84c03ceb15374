from pathlib import Path

import pytest

from hf_elmo.vocabulary_file import check_vocabulary, read_vocabulary, write_vocabulary

SPECIAL = ["<S>", "</S>", "<UNK>"]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    words = [*SPECIAL, "a", "é\u200b", "\u202e"]
    write_vocabulary(words, tmp_path / "v.txt")
    assert read_vocabulary(tmp_path / "v.txt") == words


def test_the_originals_last_line_and_other_line_ends(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes(b"<S>\r\n</S>\r\n<UNK>\r\n!!!MAXTERMID\r\nthe")
    assert read_vocabulary(tmp_path / "v.txt") == [*SPECIAL, "the"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["the"], "line 1: got 'the', expected '<S>'"),
        ([*SPECIAL, "a", "b", "a"], "line 6: got 'a', which is already at line 4"),
        ([*SPECIAL, " b"], "line 4: got ' b'"),
        ([*SPECIAL, ""], "line 4: got ''"),
        ([*SPECIAL, "<pad>"], "line 4: got '<pad>'"),
        ([*SPECIAL, "\ud800"], "lone surrogate"),
        (["<S>"], "ends before '</S>'"),
    ],
)
def test_faults_are_named(words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_vocabulary((f"line {number}", word) for number, word in enumerate(words, start=1))


def test_a_faulty_vocabulary_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="word 3"):
        write_vocabulary([*SPECIAL, ""], tmp_path / "v.txt")
    assert not (tmp_path / "v.txt").exists()


def test_missing_and_undecodable_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"v\.txt"):
        read_vocabulary(tmp_path / "v.txt")
    (tmp_path / "v.txt").write_bytes(b"<S>\n\xff")
    with pytest.raises(ValueError, match="not UTF-8"):
        read_vocabulary(tmp_path / "v.txt")
