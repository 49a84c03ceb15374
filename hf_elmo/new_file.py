"""Files that are either complete or not there."""

import os
from pathlib import Path


def write_file(path: str | Path, text: str) -> None:
    """Write text beside `path`, then rename it; a file that is there already is replaced."""
    path = Path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
