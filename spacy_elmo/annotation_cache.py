"""The options of a memory of sentences' layers, as spaCy's configuration has them."""

from pathlib import Path
from typing import Any, NamedTuple

from hf_elmo.layer_cache import DEFAULT_FOLDER_BYTES, LayerCache


class CacheOptions(NamedTuple):
    """How much of what the biLM computed is kept.

    Attributes:
        cache_size: bound on the memory, in bytes; 0 keeps nothing in memory.
        cache_dir: folder in which layers are kept for later runs and other programs.
        cache_dir_size: bound on that folder, in bytes.
        store_dtype: `"float32"`, or `"float16"` for half the room and rounded vectors.
    """

    cache_size: int = 0
    cache_dir: str | None = None
    cache_dir_size: int = DEFAULT_FOLDER_BYTES
    store_dtype: str = "float32"

    def changed(self, **options: Any) -> "CacheOptions":
        """With other options, as far as they are not None."""
        return self._replace(**{name: value for name, value in options.items() if value is not None})

    def make(self) -> LayerCache | None:
        """The cache, or None where nothing is to be kept.

        Raises:
            ValueError: an option out of range.
        """
        for name in ("cache_size", "cache_dir_size"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: got {getattr(self, name)}; expected a number of bytes, 0 or more.")
        if self.cache_dir == "":
            raise ValueError("cache_dir: got an empty name; expected a folder, or null for none.")
        if self.cache_dir is not None and Path(self.cache_dir).expanduser().is_file():
            raise ValueError(
                f"cache_dir: got {self.cache_dir!r}, which is a file; expected a folder (it is made where it is "
                "missing), or null for none."
            )
        store_dtype: Any = self.store_dtype
        cache = LayerCache(
            max_bytes=self.cache_size,
            folder=self.cache_dir,
            max_folder_bytes=self.cache_dir_size,
            store_dtype=store_dtype,
        )
        return cache if self.cache_size or self.cache_dir is not None else None
