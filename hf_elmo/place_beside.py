"""Where something is written before it takes its place by a rename."""

import os
import secrets
from pathlib import Path

_SUFFIX = ".partial"


def linked_place(path: str | Path) -> Path:
    """Where a path leads: a rename to a link would replace the link, and leave the file or folder that it names."""
    return Path(os.path.realpath(path))


def place_beside(place: Path) -> Path:
    """A hidden name in the same folder that nothing has, not even what a killed process left there."""
    # Numbers of processes would not do: in containers they come again.
    return place.with_name(f".{place.name}.{secrets.token_hex(4)}{_SUFFIX}")


def place_inside(folder: Path) -> Path:
    """The same within a folder."""
    return folder / f".{secrets.token_hex(4)}{_SUFFIX}"


def is_left_over(path: Path) -> bool:
    """Whether a path is so named, as what a process writes, or left when it was killed."""
    return path.name.startswith(".") and path.name.endswith(_SUFFIX)
