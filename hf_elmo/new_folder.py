"""Folders that are either complete or not there."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hf_elmo.place_beside import is_left_over, linked_place, place_beside, place_inside


@contextmanager
def new_folder(path: str | Path, *, replace_if: Callable[[Path], bool] | None = None) -> Iterator[Path]:
    """A folder to write into, whose content takes its place at `path` only if the block ends without an error.

    An empty folder that is there already is filled: it may be the working directory, or a disk of its own.

    Args:
        path: where the folder is to be; of a link to a folder, that folder is written and the link stays.
        replace_if: whether a folder that is there already, and not empty, may be replaced; by default none may.

    Raises:
        FileExistsError: `path` is there already and may not be replaced.
    """
    place = linked_place(path)
    occupied = _is_occupied(place)
    if occupied and not (replace_if is not None and replace_if(place)):
        raise _is_there(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    fills = place.is_dir() and not occupied
    written = place_inside(place) if fills else place_beside(place)
    written.mkdir()
    try:
        yield written
        if fills:
            if _is_occupied(place):  # by now
                raise _is_there(path)
            _move_content(written, place)
        elif occupied:
            _replace(place, written)
        else:
            written.rename(place)
    finally:
        shutil.rmtree(written, ignore_errors=True)


def _is_occupied(place: Path) -> bool:
    return place.exists() and (not place.is_dir() or not all(map(is_left_over, place.iterdir())))


def _is_there(path: str | Path) -> FileExistsError:
    return FileExistsError(f"{path}: is there already; expected a new or empty folder; choose another place.")


def _move_content(source: Path, folder: Path) -> None:
    """All of it, or after an error nothing."""
    moved: list[str] = []
    try:
        for path in sorted(source.iterdir()):
            moved.append(path.name)
            path.rename(folder / path.name)
    except BaseException:
        for name in moved:
            if (folder / name).exists() and not (source / name).exists():
                (folder / name).rename(source / name)
        raise


def _replace(place: Path, written: Path) -> None:
    """The old folder is removed when the new one is in its place."""
    old = place_beside(place)
    place.rename(old)
    try:
        written.rename(place)
    except BaseException:
        old.rename(place)
        raise
    shutil.rmtree(old)
