import os

import pytest

from hf_elmo.new_file import new_file, write_file


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


@pytest.mark.parametrize("exists", [False, True])
def test_a_link_stays_and_its_file_is_written(tmp_path, exists):
    (tmp_path / "disk").mkdir()
    real = tmp_path / "disk" / "real.txt"
    if exists:
        real.write_text("old")
    (tmp_path / "link.txt").symlink_to(real)
    with new_file(tmp_path / "link.txt") as beside:
        assert beside.parent == real.parent
        beside.write_text("new")
    assert (tmp_path / "link.txt").readlink() == real
    assert real.read_text() == "new"
    assert [path.name for path in real.parent.iterdir()] == ["real.txt"]


def test_what_is_no_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(FileExistsError, match="is there already and is not a file"):
            write_file(path, "text")
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_what_a_killed_process_left_is_in_nobodys_way(tmp_path):
    (tmp_path / f".file.txt.{os.getpid()}.partial").mkdir()
    write_file(tmp_path / "file.txt", "text")
    assert (tmp_path / "file.txt").read_text() == "text"
