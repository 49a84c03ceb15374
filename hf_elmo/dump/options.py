"""What a dump holds and how it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from hf_elmo.dump.layers import DumpedLayers

StoredType = Literal["float32", "float16"]
FormatName = Literal["hdf5", "safetensors", "parquet"]
Engine = Literal["local", "ray"]


@dataclass(frozen=True, kw_only=True)
class DumpOptions:
    """Options of [`dump`][hf_elmo.dump.dump].

    Attributes:
        layers: `"all"`, `"top"`, `"average"` of all, `"mix"` (the model's scalar mix), or numbers of layers from 0
            (token layer) on.
        dtype: of the stored numbers; they are computed in float32.
        format: by default what the output's suffix says: `.hdf5` or `.h5`, `.parquet`, none for a folder of
            safetensors.
        part_megabytes: vectors that are collected before they are written; a safetensors shard or a Parquet row group
            has this size.  What a killed run loses is one part.
        max_words_per_batch: as in `ElmoEmbedder`.
        device: such as `"cpu"` or `"cuda"`; by default where the model is, and for one that is loaded, or in Ray, a GPU
            where there is one.
        engine: `"local"`, this process, or `"ray"`, processes of Ray Data.
        workers: how many such processes; by default one a GPU, without one one a CPU core.
        with_sentences: write `sentence_to_index` into an HDF5 file.
        resume: continue the run that was broken off, if there is one.
        overwrite: replace what is there already.

    Raises:
        ValueError: a value that is none of these, or out of range.
    """

    layers: DumpedLayers = "mix"
    dtype: StoredType = "float32"
    format: FormatName | None = None
    part_megabytes: float = 128
    max_words_per_batch: int = 4096
    device: str | None = None
    engine: Engine = "local"
    workers: int | None = None
    with_sentences: bool = True
    resume: bool = False
    overwrite: bool = False

    def __post_init__(self) -> None:
        choices = {"dtype": StoredType, "engine": Engine} | ({} if self.format is None else {"format": FormatName})
        for name, kind in choices.items():
            if getattr(self, name) not in get_args(kind):
                raise ValueError(f"{name}: got {getattr(self, name)!r}; expected one of {', '.join(get_args(kind))}.")
        if not self.part_megabytes > 0:
            raise ValueError(f"part_megabytes: got {self.part_megabytes}; expected more than 0.")
        for name in ("max_words_per_batch", "workers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}: got {value}; expected 1 or more.")
        if self.workers is not None and self.engine != "ray":
            raise ValueError(f"workers: got {self.workers}; expected none where this process computes by itself.")

    @property
    def bytes_per_part(self) -> int:
        """The bound on a part's vectors."""
        return int(self.part_megabytes * 1_000_000)
