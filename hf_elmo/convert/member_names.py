"""Which of a folder's or an archive's files are the parts of a model, by their names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import NamedTuple

# The trailing name under which a part is copied out of an archive, and the names it may have there, most telling first.
PARTS: dict[str, tuple[str, ...]] = {
    "options.json": ("options.json", "*options*.json", "*.options_file"),
    "weights.hdf5": ("model.hdf5", "weights.hdf5", "*weights*.hdf5", "*.hdf5", "*.h5"),
    "weights.th": ("weights.th", "best.th", "*.th"),
    "model.ckpt.index": ("*.index",),
    "vocab.txt": ("vocab.txt", "vocab.txt.gz", "vocabulary.txt", "vocabulary.txt.gz", "*vocab*.txt", "*vocab*.txt.gz"),
    "config.json": ("config.json",),
    "lm_head.hdf5": ("lm_head.hdf5",),
    "scalar_mix.json": ("scalar_mix.json",),
    "checkpoint": ("checkpoint",),
}
WEIGHTS = ("weights.hdf5", "model.ckpt.index", "weights.th")
MANY_LANGS = {"encoder.pkl", "token_embedder.pkl"}

_LAST = re.compile(r'^\s*model_checkpoint_path:\s*"(.+)"', re.MULTILINE)
_DATA = re.compile(r"(.+)\.data-(\d{5}-of-\d{5})")


class Member(NamedTuple):
    """A file's name as the folder or archive has it, and the last part of it."""

    name: str
    last: str


def members(names: Iterable[str]) -> list[Member]:
    """The names with their last parts, without what archive programs add."""
    found = []
    for name in names:
        path = PurePosixPath(name.replace("\\", "/"))
        if "__MACOSX" not in path.parts and not path.name.startswith("."):
            found.append(Member(name, path.name))
    return found


def choose(names: Iterable[str], where: str) -> dict[str, str]:
    """Part of [`PARTS`] → the name of the file that holds it.

    Raises:
        ValueError: two files may hold the same part, or the files are ELMoForManyLangs'.
    """
    found = members(names)
    if {member.last for member in found} >= MANY_LANGS:
        raise ValueError(
            f"{where}: got encoder.pkl and token_embedder.pkl, a model of ELMoForManyLangs; expected one of AllenNLP "
            "or bilm-tf.  Its network is another one, so its weights fit into no ELMo of this package."
        )
    chosen = {}
    for part, patterns in PARTS.items():
        for pattern in patterns:
            fitting = [m for m in found if fnmatchcase(m.last, pattern) and (m.last == part or m.last not in PARTS)]
            if part == "model.ckpt.index" and len(fitting) > 1:
                break  # bilm-tf keeps two; the file `checkpoint` names the last
            if len(fitting) > 1:
                raise ValueError(
                    f"{where}: got {len(fitting)} files for the part {part}: {_listed(fitting)}; expected one.  Name "
                    "the files of the model one by one."
                )
            if fitting:
                chosen[part] = fitting[0].name
                break
    return chosen


def data_files(index: str, names: Iterable[str]) -> dict[str, str]:
    """`00000-of-00001` → the data file of a TensorFlow checkpoint whose index is given."""
    prefix = index.removesuffix(".index")
    matches = (_DATA.fullmatch(name) for name in names)
    return {match[2]: match[0] for match in matches if match is not None and match[1] == prefix}


def last_index(checkpoint: Path, names: Iterable[str]) -> dict[str, str]:
    """The index that TensorFlow's file `checkpoint` names as the last, as [`choose`] would give it; nothing if none.

    The path in it is that of the machine it was written on, so only its last part counts.
    """
    match = _LAST.search(checkpoint.read_text(encoding="utf-8", errors="replace"))
    if match is None:
        return {}
    wanted = PurePosixPath(match[1].replace("\\", "/")).name + ".index"
    found = [name for name in names if PurePosixPath(name).name == wanted]
    return {"model.ckpt.index": found[0]} if len(found) == 1 else {}


def _listed(found: list[Member]) -> str:
    return ", ".join(sorted(member.name for member in found)[:4])
