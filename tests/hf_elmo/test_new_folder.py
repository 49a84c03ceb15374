import os
from pathlib import Path

import pytest

from hf_elmo.new_folder import new_folder


def _fail(path: Path) -> None:
    with new_folder(path) as folder:
        (folder / "half").write_text("half")
        raise RuntimeError("stop")


def _write(path: Path, *names: str) -> None:
    with new_folder(path) as folder:
        for name in names:
            (folder / name).touch()


def _write_too_late(path: Path) -> None:
    with new_folder(path) as folder:
        (folder / "file").write_text("later")
        path.mkdir(exist_ok=True)
        (path / "file").write_text("earlier")


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


def test_an_empty_folder_stays_the_same_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a mounted disk; as the working directory of a shell it must not be removed."""
    (tmp_path / "out").mkdir(mode=0o750)
    before = (tmp_path / "out").stat()
    monkeypatch.chdir(tmp_path / "out")
    with new_folder(".") as folder:
        (folder / "file").touch()
        (folder / "part").mkdir()
    after = (tmp_path / "out").stat()
    assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["file", "part"]
    with pytest.raises(FileExistsError, match=r"^\.: is there already"), new_folder("."):
        pass


def test_an_empty_folder_stays_empty_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(RuntimeError):
        _fail(tmp_path / "out")
    rename = Path.rename

    def stopped(path: Path, to: Path) -> Path:
        if path.name == "b":
            raise KeyboardInterrupt
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", stopped)
    with pytest.raises(KeyboardInterrupt):
        _write(tmp_path / "out", "a", "b")
    assert list((tmp_path / "out").iterdir()) == []


def test_what_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new"):
        with pytest.raises(OSError, match=name):
            _write_too_late(tmp_path / name)
        assert [path.name for path in (tmp_path / name).iterdir()] == ["file"]
        assert (tmp_path / name / "file").read_text() == "earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "new"]


@pytest.mark.parametrize("there", [None, "empty", "full"])
def test_a_link_stays_and_its_folder_is_written(tmp_path: Path, there: str | None) -> None:
    real = tmp_path / "disk" / "real"
    (tmp_path / "link").symlink_to(real)
    if there is not None:
        real.mkdir(parents=True)
    if there == "full":
        (real / "old").touch()
    with new_folder(tmp_path / "link", replace_if=lambda folder: (folder / "old").exists()) as folder:
        (folder / "file").touch()
        assert folder.parent in (real, real.parent)  # on the same disk
    assert (tmp_path / "link").readlink() == real
    assert [path.name for path in real.iterdir()] == ["file"]
    assert [path.name for path in real.parent.iterdir()] == ["real"]


@pytest.mark.parametrize("exists", [False, True])
def test_a_killed_run_does_not_block_the_next(tmp_path: Path, exists: bool) -> None:
    """Even one with the same process number, as every first process of a container has it."""
    out = tmp_path / "out"
    if exists:
        out.mkdir()
    (tmp_path / f".out.{os.getpid()}.partial").mkdir()
    killed = new_folder(out)
    (killed.__enter__() / "half").touch()
    with new_folder(out) as folder:
        (folder / "file").touch()
    assert [path.name for path in out.iterdir() if not path.name.startswith(".")] == ["file"]


def test_a_new_folder_has_the_permissions_of_any(tmp_path: Path) -> None:
    (tmp_path / "ordinary").mkdir()
    with new_folder(tmp_path / "out"):
        pass
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "ordinary").stat().st_mode
