"""Zip and tar archives: the parts of a model, and nothing else, copied out under names of our own.

A member is only ever read.  Its name decides what it is taken for and never where it is written, so that no path in an
archive, nor any link, leads out of the folder.
"""

from __future__ import annotations

import lzma
import math
import shutil
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from hf_elmo.checkpoint_map import checkpoint_map
from hf_elmo.convert.member_names import WEIGHTS, choose, data_files, last_index
from hf_elmo.convert.old_vocabulary import LARGEST_VOCABULARY
from hf_elmo.convert.options_json import read_options

_DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    NotImplementedError,  # a compression that Python does not know
    RuntimeError,  # a password
    OverflowError,
    UnicodeDecodeError,
)
_LARGEST_JSON = 16 << 20
_LARGEST_WEIGHTS = 32 << 30


class _Archive(Protocol):
    file: Any

    def sizes(self) -> dict[str, int]:
        """Regular files and the sizes they claim."""

    def open(self, name: str) -> IO[bytes]:
        """A member's content."""


class _Zip:
    def __init__(self, path: Path) -> None:
        self.file = zipfile.ZipFile(path)

    def sizes(self) -> dict[str, int]:
        infos = (info for info in self.file.infolist() if not info.is_dir())
        return {info.filename: info.file_size for info in infos if not stat.S_ISLNK(info.external_attr >> 16)}

    def open(self, name: str) -> IO[bytes]:
        return self.file.open(name)


class _Tar:
    def __init__(self, path: Path) -> None:
        self.file = tarfile.open(path)  # noqa: SIM115

    def sizes(self) -> dict[str, int]:
        return {info.name: info.size for info in self.file.getmembers() if info.isreg()}

    def open(self, name: str) -> IO[bytes]:
        content = self.file.extractfile(name)
        if content is None:
            raise tarfile.ReadError(f"{name} is no file")
        return content


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """A folder with the parts of the model in an archive, under the names of `PARTS`; gone afterwards.

    Raises:
        ValueError: damaged, no model in it, or a member that claims to be larger than a model's part can be.  Errors of
            the block that name a file of the folder name the archive instead.
    """
    with tempfile.TemporaryDirectory(prefix="hf-elmo-") as temporary:
        try:
            with _opened(path) as archive:
                _copy_parts(archive, path, Path(temporary))
            yield Path(temporary)
        except (OSError, ValueError) as error:
            if temporary not in str(error):
                raise
            kind = ValueError if isinstance(error, ValueError) else OSError
            raise kind(str(error).replace(f"{temporary}/", f"{path}: ")) from error


@contextmanager
def _opened(path: Path) -> Iterator[_Archive]:
    try:
        archive = _Zip(path) if zipfile.is_zipfile(path) else _Tar(path)
    except _DAMAGE as error:
        raise _damaged(path, "the archive", error) from error
    with archive.file:
        yield archive


def _copy_parts(archive: _Archive, path: Path, folder: Path) -> None:
    try:
        sizes = archive.sizes()
    except _DAMAGE as error:
        raise _damaged(path, "the archive", error) from error
    chosen = choose(sizes, str(path))
    checkpoint = chosen.pop("checkpoint", None)
    if checkpoint is not None and "model.ckpt.index" not in chosen:
        _copy(archive, checkpoint, sizes[checkpoint], folder / "checkpoint", path)
        chosen |= last_index(folder / "checkpoint", sizes)
    if not set(chosen) & set(WEIGHTS):
        raise ValueError(
            f"{path}: got an archive of {len(sizes)} files without weights; expected a file *.hdf5, *.th or "
            "*.index among them."
        )
    for part, name in chosen.items():
        file_name = "vocab.txt.gz" if part == "vocab.txt" and name.endswith(".gz") else part
        _copy(archive, name, sizes[name], folder / file_name, path)
    if "model.ckpt.index" in chosen:
        for number, name in data_files(chosen["model.ckpt.index"], sizes).items():
            _copy(archive, name, sizes[name], folder / f"model.ckpt.data-{number}", path)


def _copy(archive: _Archive, name: str, size: int, target: Path, path: Path) -> None:
    most = _largest(target)
    free = shutil.disk_usage(target.parent).free
    if size > min(most, free):
        room = f"at most {most}, all that this part can hold" if most < free else f"room for it, {free} are free"
        raise ValueError(f"{path}: {name} claims to have {size} bytes; expected {room}.")
    try:
        with archive.open(name) as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
    except _DAMAGE as error:
        raise _damaged(path, name, error) from error
    if target.stat().st_size != size:
        raise ValueError(f"{path}: {name} ends after {target.stat().st_size} bytes; expected {size}.")


def _damaged(path: Path, what: str, error: Exception) -> ValueError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return ValueError(f"{path}: {what} cannot be read, it is damaged, cut off or locked: {reason}")


def _largest(target: Path) -> int:
    """How many bytes a part may have; the options, which are copied first, tell it of an HDF5."""
    if target.suffix == ".json" or target.name == "checkpoint":
        return _LARGEST_JSON
    if target.name.startswith("vocab"):
        return LARGEST_VOCABULARY
    options = target.with_name("options.json")
    if target.name == "weights.hdf5" and options.is_file():
        entries = checkpoint_map(read_options(options))
        return 2 * 4 * sum(math.prod(entry.shape) for entry in entries) + (1 << 20)
    return _LARGEST_WEIGHTS
