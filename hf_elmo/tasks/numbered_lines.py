"""The lines of a text file and their numbers, so that whatever is wrong with one can be named."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path


def numbered_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file, plain or `.gz`, from 1 on, each with its end.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a line that is not UTF-8, or a file that cannot be unpacked.
    """
    path = Path(path)
    if not path.is_file():
        got = "got a folder" if path.is_dir() else "no such file"
        raise FileNotFoundError(f"{path}: {got}; expected a text file, plain or .gz.")
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as stream:
        number = 0
        try:
            for number, line in enumerate(stream, start=1):
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            got = error.object[error.start : error.start + 4].hex(" ")
            raise ValueError(
                f"{path}: line {number}: got bytes {got} at byte {error.start} of the line; expected UTF-8 text; "
                "convert it, as by iconv -t UTF-8."
            ) from error
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(
                f"{path}: cannot be unpacked after line {number}: {error}; fetch the file again."
            ) from error


def suffix_of(path: str | Path) -> str:
    """The ending that tells a file's format, without `.gz`, in lower case."""
    path = Path(path)
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()
