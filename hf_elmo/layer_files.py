"""Layers of sentences in a folder, for several programs at once.

A process that stores appends to a pair of files of its own, and reads those of all: nobody waits for a lock.  `.layers`
holds the numbers, `.index` where they are.  The numbers are written first; a record of the index that is cut off is not
there yet.  Every record and every array has a checksum.  A file that turns out to be damaged is removed, and what it
held is computed again.
"""

import contextlib
import logging
import os
import secrets
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

logger = logging.getLogger(__name__)

KEY_BYTES = 32
_MAGIC = b"hf_elmo layers 1\n"
# key, offset, layers, words, width, checksum of the numbers; then a checksum of these
_RECORD = struct.Struct(f"<{KEY_BYTES}sQIIII")
_CHECKSUM = struct.Struct("<I")
_RECORD_BYTES = _RECORD.size + _CHECKSUM.size
# After how many bytes of its own a process looks how large the folder has become.
_LOOK_AFTER = 64 * 2**20
# Of the bound; so that one very long text does not take the room of all others.
_LARGEST_SHARE = 8


class _Place(NamedTuple):
    """Where an array lies: the file's path without its ending, and what the index says."""

    stem: Path
    offset: int
    shape: tuple[int, int, int]
    checksum: int


class LayerFiles:
    """Arrays of three dimensions by key, all of one dtype, in one group of a folder.

    Args:
        folder: is made where it is missing; may be shared by programs and by groups.
        group: a subfolder's name; the groups share the bound on the folder.
        dtype: of the numbers.
        max_bytes: bound on the whole folder.  Where it is reached, other groups' files go, those first that were not
            used for longest; then nothing more is stored.

    Raises:
        OSError: the folder cannot be made.
    """

    def __init__(self, folder: str | Path, *, group: str, dtype: str, max_bytes: int) -> None:
        self.folder = Path(folder)
        self.group = self.folder / group
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.max_bytes = max_bytes
        try:
            self.group.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise type(error)(
                f"cache folder: got {folder}, which cannot be made ({error}); expected a folder that this program may "
                "write to. Name another one, or none."
            ) from error
        self._places: dict[bytes, _Place] = {}
        self._read_to: dict[Path, int] = {}  # per index file, how many of its bytes are known
        self._writer: _Writer | None = None
        self._used_elsewhere: int | None = None  # bytes in the folder, without those written since
        self._written = 0
        self._full = False
        self._refresh()

    def __len__(self) -> int:
        return len(self._places)

    def get(self, key: bytes) -> NDArray[np.floating] | None:
        """The array stored under a key by any process, or None."""
        if key not in self._places:
            self._refresh()
        place = self._places.get(key)
        if place is None:
            return None
        array = self._read(place)
        if array is None:
            self._drop(place.stem, "numbers that are cut off or changed")
        return array

    def put(self, key: bytes, array: NDArray[np.floating]) -> bool:
        """Store an array; False where there is no room for it, or no way to write."""
        if key in self._places:
            return True
        array = np.ascontiguousarray(array, dtype=self.dtype)
        if not self._has_room(array.nbytes + _RECORD_BYTES):
            return False
        try:
            if self._writer is None or self._writer.process != os.getpid():  # a forked process has its own
                self._writer = _Writer(self.group)
            place = self._writer.append(key, array)
        except OSError as error:
            self._stop(f"it cannot be written to ({error})")
            return False
        self._places[key] = place
        self._read_to[_index(place.stem)] = self._writer.index_bytes
        self._written += array.nbytes + _RECORD_BYTES
        return True

    # Reading

    def _refresh(self) -> None:
        """Take note of what other processes have stored since."""
        with contextlib.suppress(OSError):
            for path in sorted(self.group.glob("*.index")):
                if path not in self._read_to:
                    with contextlib.suppress(OSError):
                        os.utime(_layers(path.with_suffix("")))  # used now
                try:
                    self._read_index(path)
                except FileNotFoundError:  # removed by another program just now
                    continue

    def _read_index(self, path: Path) -> None:
        known = self._read_to.get(path, 0)
        if path.stat().st_size <= known:
            return
        with path.open("rb") as file:
            file.seek(known)
            new = file.read()
        if known == 0:
            if len(new) < len(_MAGIC):
                return  # being written
            if not new.startswith(_MAGIC):
                self._drop(path.with_suffix(""), "an index of another format")
                return
            known, new = len(_MAGIC), new[len(_MAGIC) :]
        complete = len(new) - len(new) % _RECORD_BYTES
        stem = path.with_suffix("")
        for start in range(0, complete, _RECORD_BYTES):
            record = new[start : start + _RECORD_BYTES]
            if zlib.crc32(record[: _RECORD.size]) != _CHECKSUM.unpack_from(record, _RECORD.size)[0]:
                self._drop(stem, "a changed index")
                return
            key, offset, layers, words, width, checksum = _RECORD.unpack_from(record)
            self._places[key] = _Place(stem, offset, (layers, words, width), checksum)
        self._read_to[path] = known + complete

    def _read(self, place: _Place) -> NDArray[np.floating] | None:
        array = np.empty(place.shape, dtype=self.dtype)
        numbers = _as_bytes(array)
        try:
            with _layers(place.stem).open("rb", buffering=0) as file:
                file.seek(place.offset)
                read = 0
                while read < len(numbers):
                    more = file.readinto(numbers[read:])
                    if not more:
                        return None
                    read += more
        except OSError:
            return None
        return array if zlib.crc32(numbers) == place.checksum else None

    def _drop(self, stem: Path, found: str) -> None:
        """Trust nothing of a damaged pair of files."""
        logger.warning(
            "%s: got %s; expected what was written. The file is removed, and what it held is computed again.",
            _layers(stem),
            found,
        )
        self._places = {key: place for key, place in self._places.items() if place.stem != stem}
        if self._writer is not None and self._writer.stem == stem:
            self._writer = None
        self._read_to.pop(_index(stem), None)
        _remove(stem)

    # Bounds

    def _has_room(self, size: int) -> bool:
        if self._full or size > self.max_bytes // _LARGEST_SHARE:
            return False
        if (
            self._used_elsewhere is None
            or self._written > _LOOK_AFTER
            or self._used_elsewhere + self._written + size > self.max_bytes
        ):
            self._used_elsewhere, self._written = _bytes_in(self.folder), 0
            if self._used_elsewhere + size > self.max_bytes:
                self._used_elsewhere = self._make_room(self._used_elsewhere, size)
        if self._used_elsewhere + size <= self.max_bytes:
            return True
        self._stop(f"it has reached its bound of {self.max_bytes:,} bytes")
        return False

    def _make_room(self, used: int, size: int) -> int:
        """Remove other groups' files, the least recently used first, until there is room; how much is used then."""
        for path in sorted(_others(self.folder, self.group), key=_last_use):
            if used + size <= self.max_bytes:
                break
            used -= _remove(path.with_suffix(""))
        return used

    def _stop(self, why: str) -> None:
        self._full = True
        logger.warning("%s: %s; vectors that are not in it already are not stored.", self.folder, why)


class _Writer:
    """The pair of files that one process appends to."""

    def __init__(self, group: Path) -> None:
        self.process = os.getpid()
        self.stem = group / f"{time.time_ns():020d}-{self.process}-{secrets.token_hex(4)}"
        # Unbuffered: what is written survives the end of the process, whatever ends it.
        self._layers = _layers(self.stem).open("xb", buffering=0)
        self._index = _index(self.stem).open("xb", buffering=0)
        self._offset = 0
        self._index.write(_MAGIC)
        self.index_bytes = len(_MAGIC)

    def append(self, key: bytes, array: NDArray[np.floating]) -> _Place:
        numbers = _as_bytes(array)
        layers, words, width = array.shape
        offset, checksum = self._offset, zlib.crc32(numbers)
        written = 0
        while written < len(numbers):  # a system writes at most 2 GiB at once
            count = self._layers.write(numbers[written:])
            written += count
            self._offset += count
        record = _RECORD.pack(key, offset, layers, words, width, checksum)
        self._index.write(record + _CHECKSUM.pack(zlib.crc32(record)))
        self.index_bytes += _RECORD_BYTES
        return _Place(self.stem, offset, (layers, words, width), checksum)


def _as_bytes(array: NDArray[np.floating]) -> memoryview:
    return array.data.cast("B") if array.size else memoryview(b"")


def _layers(stem: Path) -> Path:
    return stem.with_name(f"{stem.name}.layers")


def _index(stem: Path) -> Path:
    return stem.with_name(f"{stem.name}.index")


def _pairs(folder: Path) -> Iterator[Path]:
    return folder.glob("*/*.layers")


def _others(folder: Path, group: Path) -> list[Path]:
    return [path for path in _pairs(folder) if path.parent != group]


def _last_use(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _bytes_in(folder: Path) -> int:
    total = 0
    for pattern in ("*/*.layers", "*/*.index"):
        for path in folder.glob(pattern):
            with contextlib.suppress(OSError):
                total += path.stat().st_size
    return total


def _remove(stem: Path) -> int:
    """Remove a pair of files, as far as the system lets; returns the bytes that are free now."""
    free = 0
    for path in (_index(stem), _layers(stem)):
        with contextlib.suppress(OSError):
            size = path.stat().st_size
            path.unlink()
            free += size
    return free
