"""Folders that are either complete or not there."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def new_folder(path: str | Path, *, replace_if: Callable[[Path], bool] | None = None) -> Iterator[Path]:
    """A folder to write into, which takes its place at `path` only if the block ends without an error.

    Args:
        path: where the folder is to be.
        replace_if: whether a folder that is there already, and not empty, may be replaced; by default none may.

    Raises:
        FileExistsError: `path` is there already and may not be replaced.
    """
    path = Path(path)
    occupied = path.exists() and (not path.is_dir() or any(path.iterdir()))
    if occupied and not (replace_if is not None and replace_if(path)):
        raise FileExistsError(f"{path}: is there already; expected a new or empty folder; choose another place.")
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    beside.mkdir()
    try:
        yield beside
        if path.exists():
            shutil.rmtree(path)
        beside.rename(path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
