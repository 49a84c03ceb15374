"""A memory of sentences' layers: in memory, in a folder, or both."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from hf_elmo.layer_files import LayerFiles
from hf_elmo.version import __version__

StoreDtype = Literal["float32", "float16"]
FloatArray = NDArray[np.float32]

DEFAULT_FOLDER_BYTES = 20 * 10**9
_LARGEST_SHARE = 8


class CacheStatistics(NamedTuple):
    """What a cache did in this process.

    Attributes:
        memory_hits: sentences that were found in memory.
        folder_hits: sentences that were found in the folder.
        misses: sentences that were found nowhere.
        sentences: sentences in memory now.
        bytes: their size.
    """

    memory_hits: int
    folder_hits: int
    misses: int
    sentences: int
    bytes: int

    @property
    def hits(self) -> int:
        """Sentences that were found."""
        return self.memory_hits + self.folder_hits


class LayerCache:
    """Layers by sentence and by the weights they were computed with.

    Args:
        max_bytes: bound on the arrays in memory; the least recently used go first.  0 keeps none.
        folder: also keep them there, for later runs and other programs.
        max_folder_bytes: bound on the folder, see [`LayerFiles`][hf_elmo.layer_files.LayerFiles].
        store_dtype: `"float32"` gives back what was computed, to the bit; `"float16"` takes half the room and rounds to
            11 bits.  What `put` returns is what `get` will return.

    An array of more than an eighth of a bound is not stored there.

    Raises:
        ValueError: an option out of range.
        OSError: the folder cannot be made.
    """

    def __init__(
        self,
        *,
        max_bytes: int = 0,
        folder: str | Path | None = None,
        max_folder_bytes: int = DEFAULT_FOLDER_BYTES,
        store_dtype: StoreDtype = "float32",
    ) -> None:
        for name, value in (("max_bytes", max_bytes), ("max_folder_bytes", max_folder_bytes)):
            if value < 0:
                raise ValueError(f"{name}: got {value}; expected a number of bytes, 0 or more.")
        if store_dtype not in get_args(StoreDtype):
            expected = ", ".join(map(repr, get_args(StoreDtype)))
            raise ValueError(f"store_dtype: got {store_dtype!r}; expected one of {expected}.")
        self.max_bytes = max_bytes
        self.folder = None if folder is None else Path(folder).expanduser().absolute()
        self.max_folder_bytes = max_folder_bytes
        self.store_dtype: StoreDtype = store_dtype
        self._memory: OrderedDict[bytes, NDArray[np.floating]] = OrderedDict()
        self._bytes = 0
        self._groups: dict[str, LayerFiles] = {}
        self._memory_hits = self._folder_hits = self._misses = 0
        self._lock = threading.RLock()

    def get(self, weights: str, sentence: Sequence[str]) -> FloatArray | None:
        """A sentence's layers, or None.

        Args:
            weights: says with what they were computed: `weights_hash(model, mix=False)`, and the precision.
            sentence: the words.

        Shape:
            (layers, words, width), not to be written to
        """
        key = self._key(weights, sentence)
        with self._lock:
            stored = self._memory.get(key)
            if stored is not None:
                self._memory.move_to_end(key)
                self._memory_hits += 1
                return _given(stored)
            files = self._files(weights)
            stored = None if files is None else files.get(key)
            if stored is None:
                self._misses += 1
                return None
            self._folder_hits += 1
            self._remember(key, stored)
            return _given(stored)

    def put(self, weights: str, sentence: Sequence[str], layers: FloatArray) -> FloatArray:
        """Store a sentence's layers; returns them as they will be given back.

        Raises:
            ValueError: numbers too large for float16.
        """
        key = self._key(weights, sentence)
        stored = _rounded(layers) if self.store_dtype == "float16" else np.ascontiguousarray(layers, dtype=np.float32)
        with self._lock:
            self._remember(key, stored)
            files = self._files(weights)
            if files is not None:
                files.put(key, stored)
        return _given(stored)

    @property
    def statistics(self) -> CacheStatistics:
        """Counted since this object was made; a worker of several processes counts for itself."""
        return CacheStatistics(self._memory_hits, self._folder_hits, self._misses, len(self._memory), self._bytes)

    def clear(self) -> None:
        """Forget what is in memory, and the statistics; the folder stays."""
        with self._lock:
            self._memory.clear()
            self._bytes = self._memory_hits = self._folder_hits = self._misses = 0

    def _remember(self, key: bytes, stored: NDArray[np.floating]) -> None:
        if stored.nbytes > self.max_bytes // _LARGEST_SHARE or key in self._memory:
            return
        self._memory[key] = stored
        self._bytes += stored.nbytes
        while self._bytes > self.max_bytes:
            self._bytes -= self._memory.popitem(last=False)[1].nbytes

    def _files(self, weights: str) -> LayerFiles | None:
        if self.folder is None:
            return None
        group = hashlib.sha256(f"{weights} {self.store_dtype} {__version__}".encode()).hexdigest()[:32]
        if group not in self._groups:
            self._groups[group] = LayerFiles(
                self.folder, group=group, dtype=self.store_dtype, max_bytes=self.max_folder_bytes
            )
        return self._groups[group]

    def _key(self, weights: str, sentence: Sequence[str]) -> bytes:
        """The words and all that their layers depend on; another version of this package computes for itself."""
        parts = [weights, self.store_dtype, __version__, *sentence]
        encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
        digest = hashlib.sha256(np.array([len(part) for part in encoded], dtype="<u4").tobytes())
        digest.update(b"".join(encoded))
        return digest.digest()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, also one in another process, begins with an empty memory and the same folder."""
        return _same_options, (self.max_bytes, self.folder, self.max_folder_bytes, self.store_dtype)


def _same_options(max_bytes: int, folder: Path | None, max_folder_bytes: int, store_dtype: StoreDtype) -> LayerCache:
    return LayerCache(max_bytes=max_bytes, folder=folder, max_folder_bytes=max_folder_bytes, store_dtype=store_dtype)


def _given(stored: NDArray[np.floating]) -> FloatArray:
    given = stored.astype(np.float32, copy=False).view()
    given.flags.writeable = False
    return given


def _rounded(layers: FloatArray) -> NDArray[np.float16]:
    with np.errstate(over="ignore"):
        rounded = np.ascontiguousarray(layers, dtype=np.float16)
    if not np.isfinite(rounded).all() and np.isfinite(layers).all():
        largest = float(np.abs(layers).max())
        raise ValueError(
            f'store_dtype: got "float16" for layers with numbers up to {largest:.0f}, which has none beyond '
            f'{np.finfo(np.float16).max:.0f}; expected store_dtype = "float32" for this model.'
        )
    return rounded
