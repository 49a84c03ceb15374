"""What the user hands over: recognised by its content, and its parts found."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, get_args

from hf_elmo.convert.archives import unpacked
from hf_elmo.convert.member_names import WEIGHTS, choose, last_index
from hf_elmo.convert.options_json import read_json

Format = Literal["hdf5", "tensorflow", "state-dict"]
FORMATS: tuple[Format, ...] = get_args(Format)

_PART_OF: dict[Format, str] = {
    "hdf5": "weights.hdf5",
    "tensorflow": "model.ckpt.index",
    "state-dict": "weights.th",
}
_SUFFIXES = {
    ".hdf5": "weights.hdf5",
    ".h5": "weights.hdf5",
    ".th": "weights.th",
    ".index": "model.ckpt.index",
    ".json": "json",
    ".txt": "vocab.txt",
    ".zip": "archive",
    ".tgz": "archive",
    ".tar": "archive",
}
_EXPECTED = "a folder, a zip or tar archive, or files of options, weights (*.hdf5, *.th, *.index) and vocabulary"


class Source:
    """The parts of one model.

    Args:
        paths: folders, archives and files; a part named by itself goes before one found in a folder.
        format: how to read the weights, where there are several kinds or they are not recognised.
        stack: closes what was unpacked.

    Attributes:
        format: of the weights.
        parts: part (a key of `PARTS`) → file.
        notes: what the user should know, a line each.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no weights, no options, or two files for one part.
    """

    def __init__(self, paths: Sequence[str | Path], format: Format | None, stack: ExitStack) -> None:
        if format is not None and format not in FORMATS:
            raise ValueError(f"format: got {format!r}; expected one of {', '.join(map(repr, FORMATS))}.")
        self.notes: list[str] = []
        self.parts: dict[str, Path] = {}
        found: dict[str, Path] = {}
        for path in map(Path, paths):
            part = _part(path, format)
            if part == "archive":
                path, part = stack.enter_context(unpacked(path)), "folder"
            if part == "folder":
                found |= _in_folder(path)
                continue
            if part == "model.ckpt.index":
                path = _index(path)
            if part in self.parts:
                raise ValueError(f"{path}: got a second file of {part} besides {self.parts[part]}; expected one.")
            self.parts[part] = path
        self._complete(found)
        self.format: Format = self._format(format, [str(path) for path in paths])

    @property
    def weights(self) -> Path:
        """The file of the weights."""
        return self.parts[_PART_OF[self.format]]

    def _complete(self, found: dict[str, Path]) -> None:
        """Add what is in the folders; else what lies beside weights that are named alone."""
        own = [self.parts[part] for part in WEIGHTS if part in self.parts]
        if own:
            found = {part: path for part, path in found.items() if part not in WEIGHTS}
        if own and "options.json" not in self.parts | found:
            beside = own[0].with_name("options.json")
            vocabulary = own[0].with_name("vocab.txt")
            found |= {part.name: part for part in (beside, vocabulary) if beside.is_file() and part.is_file()}
        self.parts = found | self.parts

    def _format(self, wanted: Format | None, names: list[str]) -> Format:
        there = [format for format in FORMATS if _PART_OF[format] in self.parts]
        if wanted is not None and wanted not in there:
            raise ValueError(f"{' '.join(names)}: got no weights of the format {wanted!r}; expected {_EXPECTED}.")
        if not there:
            raise ValueError(f"{' '.join(names)}: got no weights; expected {_EXPECTED}.")
        chosen = wanted or there[0]
        for other in there:
            if other != chosen:
                self.notes.append(
                    f"{self.parts[_PART_OF[chosen]].name} was read; for {self.parts[_PART_OF[other]].name} add "
                    f"--format {other}"
                )
        return chosen


def _in_folder(folder: Path) -> dict[str, Path]:
    names = [path.name for path in folder.iterdir() if path.is_file()]
    chosen = choose(names, str(folder))
    checkpoint = chosen.pop("checkpoint", None)
    if checkpoint is not None:
        chosen |= last_index(folder / checkpoint, names)
    indices = sorted(name for name in names if name.endswith(".index"))
    if not set(chosen) & set(WEIGHTS) and len(indices) > 1:
        raise ValueError(
            f"{folder}: got {len(indices)} TensorFlow checkpoints and no file `checkpoint` that names one of them; "
            f"expected one, such as {folder / indices[-1]}."
        )
    return {part: folder / name for part, name in chosen.items()}


def _index(path: Path) -> Path:
    """The index of a checkpoint that is named by its index, its data, or what both names begin with."""
    prefix = str(path).removesuffix(".index")
    if ".data-" in path.name:
        prefix = str(path)[: str(path).rindex(".data-")]
    index = Path(f"{prefix}.index")
    if not index.is_file():
        raise FileNotFoundError(f"{index}: no such file; expected the index of the TensorFlow checkpoint {prefix}.")
    return index


def _part(path: Path, format: Format | None) -> str:
    """What a path is: "folder", "archive", or a part of the model."""
    if path.is_dir():
        return "folder"
    if not path.exists():
        if Path(f"{path}.index").is_file() or ".data-" in path.name:
            return "model.ckpt.index"
        raise FileNotFoundError(f"{path}: no such file or folder; expected {_EXPECTED}.")
    part = _by_content(path) or _SUFFIXES.get(path.suffix.lower())
    if part == "json":
        return _json_part(path)
    if format is not None and part in (None, "vocab.txt", *WEIGHTS):
        return part if part == "vocab.txt" and path.suffix in (".txt", ".gz") else _PART_OF[format]
    if part is None:
        raise ValueError(f"{path}: got a file of no format known; expected {_EXPECTED}, or name it with --format.")
    return part


def _by_content(path: Path) -> str | None:
    if ".data-" in path.name:
        return "model.ckpt.index"
    with path.open("rb") as file:
        begin = file.read(512)
    if begin.startswith(b"\x89HDF\r\n\x1a\n"):
        return "weights.hdf5"
    if begin.startswith(b"PK\x03\x04"):
        return "weights.th" if _is_torch(path) else "archive"
    if begin.startswith(b"\x1f\x8b") and path.name.endswith(".txt.gz"):
        return "vocab.txt"
    if begin.startswith(b"\x1f\x8b") or begin[257:262] == b"ustar":
        return "archive"
    is_json = begin.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    return "weights.th" if begin.startswith(b"\x80\x02") else "json" if is_json else None


def _is_torch(path: Path) -> bool:
    """Whether a zip archive is what `torch.save` writes."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/data.pkl") for name in archive.namelist())
    except (zipfile.BadZipFile, OSError, NotImplementedError, UnicodeDecodeError):
        return path.suffix.lower() == ".th"


def _json_part(path: Path) -> str:
    """Options of a biLM, or the configuration of one of AllenNLP's programs."""
    if path.name == "scalar_mix.json":
        return path.name
    content = read_json(path)
    if "char_cnn" in content or "lstm" in content:
        return "options.json"
    return "config.json" if "model" in content or "dataset_reader" in content else "options.json"
