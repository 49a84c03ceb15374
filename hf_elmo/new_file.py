"""Files that are either complete or not there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hf_elmo.place_beside import linked_place, place_beside


@contextmanager
def new_file(path: str | Path) -> Iterator[Path]:
    """A path to write to, whose file takes its place at `path` only if the block ends without an error.

    Args:
        path: where the file is to be; one that is there already is replaced, and of a link the file that it names.

    Raises:
        FileExistsError: something is there that is no file.
    """
    place = linked_place(path)
    if place.exists() and not place.is_file():
        raise FileExistsError(f"{path}: is there already and is not a file; expected a new file or one to replace.")
    beside = place_beside(place)
    try:
        yield beside
        os.replace(beside, place)
    finally:
        beside.unlink(missing_ok=True)


def write_file(path: str | Path, text: str) -> None:
    """Write text as a [`new_file`]; one that is there already is replaced."""
    with new_file(path) as file:
        file.write_text(text, encoding="utf-8")
