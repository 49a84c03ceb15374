"""The original's weights.hdf5: read with every name, shape and number checked."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hf_elmo.checkpoint_map import Entry, checkpoint_map
from hf_elmo.configuration_elmo import ElmoConfig

# What h5py raises, by the place in the file that is damaged.
_DAMAGE = (OSError, RuntimeError, KeyError, ValueError)


def read_hdf5(path: str | Path, config: ElmoConfig) -> dict[str, Tensor]:
    """The parameters of `ElmoModel` (without its scalar mix) that a weight file holds, its values unchanged.

    Raises:
        ImportError: h5py is not installed.
        OSError: the file cannot be read, or is no HDF5.
        ValueError: a dataset is missing, too many, of another shape or type, damaged, or holds a number that is none.
    """
    entries = checkpoint_map(config)
    with _open(Path(path)) as file:
        try:
            found = _datasets(file)
            datasets = {name: file[name] for name in found}
        except _DAMAGE as error:
            raise ValueError(f"{path}: cannot be read, the file is damaged: {error}") from error
        _check_names(path, {entry.dataset for entry in entries}, found)
        return {entry.parameter: _read(path, datasets[entry.dataset], entry) for entry in entries}


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    try:
        import h5py
    except ImportError as error:
        raise ImportError('reading HDF5 weights needs h5py: pip install "spacy-elmo[convert]"') from error
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected the weights of the options.json, as HDF5.")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise OSError(f"{path}: cannot be read as HDF5, perhaps because its download was cut off: {error}") from error
    with file:
        yield file


def _datasets(file: Any) -> set[str]:
    import h5py

    names: set[str] = set()
    file.visititems(lambda name, item: names.add(name) if isinstance(item, h5py.Dataset) else None)
    return names


def _check_names(path: str | Path, expected: set[str], found: set[str]) -> None:
    problems = [
        f"{what} {_listed(names)}"
        for what, names in (("missing", expected - found), ("not expected", found - expected))
        if names
    ]
    if problems:
        raise ValueError(
            f"{path}: got other datasets than its options.json calls for: {'; '.join(problems)}. Do both files "
            "belong to the same model?"
        )


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - 3} more" if len(ordered) > 3 else ""
    return ", ".join(ordered[:3]) + more


def _read(path: str | Path, dataset: Any, entry: Entry) -> Tensor:
    where = f"{path}: dataset {entry.dataset}"
    if dataset.shape != entry.shape:
        raise ValueError(
            f"{where}: got shape {dataset.shape}; expected {entry.shape} by its options.json. Do both files "
            "belong to the same model?"
        )
    if dataset.dtype != np.float32:
        raise ValueError(f"{where}: got numbers of type {dataset.dtype}; expected float32, the original's only type.")
    try:
        values = dataset[()]
    except _DAMAGE as error:
        raise ValueError(f"{where}: cannot be read, the file is damaged or cut off: {error}") from error
    if not np.isfinite(values).all():
        raise ValueError(
            f"{where}: got {np.sum(~np.isfinite(values))} values that are NaN or infinite; expected numbers."
        )
    return torch.from_numpy(np.ascontiguousarray(entry.layout.from_file(values)))
