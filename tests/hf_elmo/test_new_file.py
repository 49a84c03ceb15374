import pytest

from hf_elmo.new_file import write_file


def test_writes_and_replaces(tmp_path):
    for text in ("one\n", "naïve\n"):
        write_file(tmp_path / "file.txt", text)
        assert (tmp_path / "file.txt").read_text(encoding="utf-8") == text
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]


def test_what_is_there_stays_where_writing_fails(tmp_path):
    write_file(tmp_path / "file.txt", "old")
    with pytest.raises(UnicodeEncodeError):
        write_file(tmp_path / "file.txt", "\ud800")
    assert (tmp_path / "file.txt").read_text() == "old"
