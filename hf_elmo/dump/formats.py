"""The formats of a dump: how each is made of parts, and how it says what it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hf_elmo.dump import hdf5, parquet, shards
from hf_elmo.dump.options import FormatName
from hf_elmo.dump.parts import sync
from hf_elmo.dump.work_folder import WorkFolder

_SUFFIXES: dict[str, FormatName] = {".hdf5": "hdf5", ".h5": "hdf5", ".parquet": "parquet", "": "safetensors"}


def format_of(out: Path, given: FormatName | None) -> FormatName:
    """The format asked for, or else that of the suffix.

    Raises:
        ValueError: a suffix that says nothing.
    """
    if given is not None:
        return given
    if out.suffix not in _SUFFIXES:
        raise ValueError(
            f"out: got {str(out)!r}; expected a name that ends with .hdf5, .h5 or .parquet, or one without a suffix "
            "for a folder of safetensors; otherwise say which format."
        )
    return _SUFFIXES[out.suffix]


def check_available(name: FormatName) -> None:
    """Raises ImportError where a format's library is missing."""
    if name == "hdf5":
        hdf5.check_available()
    elif name == "parquet":
        parquet.check_available()


def check_replaceable(name: FormatName, out: Path) -> None:
    """Refuse to replace what is of another kind: a folder of something else would be lost with all it holds.

    Raises:
        FileExistsError: so it is.
    """
    if not out.exists():
        return
    if name == "safetensors":
        sound = out.is_dir() and (not any(out.iterdir()) or shards.read_info(out) is not None)
        expected = "a folder of `hf-elmo embed` to replace"
    else:
        sound, expected = out.is_file(), "a file to replace"
    if not sound:
        raise FileExistsError(f"{out}: is there already and is not {expected}; choose another name.")


def finish(name: FormatName, work: WorkFolder, info: dict[str, Any], *, with_sentences: bool) -> None:
    """Make what is to be put in place of the parts."""
    parts = work.part_files()
    if name == "safetensors":
        # The parts are the shards.
        shards.write_index(parts, work.parts / shards.INDEX, info)
        sync(work.parts / shards.INDEX)
        os.rename(work.parts, work.finished)
        return
    joined = work.unfinished / "joined"
    if name == "hdf5":
        hdf5.join(parts, joined, info, with_sentences=with_sentences)
    else:
        parquet.join(parts, joined, info)
    sync(joined)
    os.rename(joined, work.finished)


def read_info(name: FormatName, path: Path) -> dict[str, Any] | None:
    """What a finished dump says of itself, or None of anything else."""
    return {"hdf5": hdf5.read_info, "parquet": parquet.read_info, "safetensors": shards.read_info}[name](path)
