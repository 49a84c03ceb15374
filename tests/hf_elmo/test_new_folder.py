from pathlib import Path

import pytest

from hf_elmo.new_folder import new_folder


def _fail(path: Path) -> None:
    with new_folder(path) as folder:
        (folder / "half").write_text("half")
        raise RuntimeError("stop")


def test_it_appears_when_complete(tmp_path: Path) -> None:
    with new_folder(tmp_path / "a" / "b") as folder:
        (folder / "file").write_text("content")
        assert not (tmp_path / "a" / "b").exists()
    assert (tmp_path / "a" / "b" / "file").read_text() == "content"


def test_after_an_error_nothing_is_there(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        _fail(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(FileExistsError, match="is there already"), new_folder(tmp_path / "out"):
        pass
    with new_folder(tmp_path / "out", replace_if=lambda there: (there / "mine").exists()):
        pass
    assert list((tmp_path / "out").iterdir()) == []


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with new_folder(tmp_path / "out") as folder:
        (folder / "file").touch()
    assert (tmp_path / "out" / "file").exists()
