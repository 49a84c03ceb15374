"""The original's weights.hdf5: read with every name, shape and number checked."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hf_elmo.checkpoint_map import Entry, checkpoint_map, head_map
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
    return _read_entries(path, checkpoint_map(config), "options.json")


def read_head(path: str | Path, config: ElmoConfig) -> dict[str, Tensor]:
    """`weight` and `bias` of the softmax in a file of [`write_hdf5`].

    Raises:
        ImportError, OSError, ValueError: as [`read_hdf5`].
    """
    parameters = _read_entries(path, head_map(config), "vocabulary")
    return {name.removeprefix("lm_head."): values for name, values in parameters.items()}


def write_hdf5(path: str | Path, entries: Sequence[Entry], parameters: Mapping[str, Tensor]) -> None:
    """Write a weight file as the original does: float32 datasets, without attributes or compression.

    Args:
        path: the file to make.
        entries: `checkpoint_map` or `head_map` of the model.
        parameters: its parameters.

    Raises:
        ImportError: h5py is not installed.
        ValueError: a parameter of another shape, or a value that is no number.
    """
    with _open(Path(path), "w") as file:
        for entry in entries:
            values = parameters[entry.parameter].detach().to("cpu", torch.float32).numpy()
            array = np.ascontiguousarray(entry.layout.to_file(values))
            if array.shape != entry.shape or not np.isfinite(array).all():
                bad = np.sum(~np.isfinite(values))
                raise ValueError(
                    f"{entry.parameter}: got values of shape {values.shape}, {bad} of them NaN or infinite; expected "
                    f"numbers that make a dataset of shape {entry.shape}."
                )
            file.create_dataset(entry.dataset, data=array)


def _read_entries(path: str | Path, entries: Sequence[Entry], by: str) -> dict[str, Tensor]:
    with _open(Path(path), "r") as file:
        try:
            found = _datasets(file)
            datasets = {name: file[name] for name in found}
        except _DAMAGE as error:
            raise ValueError(f"{path}: cannot be read, the file is damaged: {error}") from error
        _check_names(path, {entry.dataset for entry in entries}, found)
        return {entry.parameter: _read(path, datasets[entry.dataset], entry, by) for entry in entries}


@contextmanager
def _open(path: Path, mode: str) -> Iterator[Any]:
    try:
        import h5py
    except ImportError as error:
        raise ImportError('HDF5 weights need h5py: pip install "spacy-elmo[convert]"') from error
    if mode == "r" and not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected the weights of the options.json, as HDF5.")
    try:
        file = h5py.File(path, mode)
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
    if found != expected:
        raise ValueError(
            f"{path}: got other datasets than its options.json calls for: {differences(expected, found)}. Do both "
            "files belong to the same model?"
        )


def differences(expected: Set[str], found: Set[str]) -> str:
    """Which names are missing, and which are not expected."""
    kinds = (("missing", expected - found), ("not expected", found - expected))
    return "; ".join(f"{what} {listed(names)}" for what, names in kinds if names)


def listed(names: Iterable[str]) -> str:
    """The first three names, and how many more there are."""
    ordered = sorted(names)
    more = f" and {len(ordered) - 3} more" if len(ordered) > 3 else ""
    return ", ".join(ordered[:3]) + more


def _read(path: str | Path, dataset: Any, entry: Entry, by: str) -> Tensor:
    where = f"{path}: dataset {entry.dataset}"
    if dataset.shape != entry.shape:
        raise ValueError(
            f"{where}: got shape {dataset.shape}; expected {entry.shape} by its {by}. Do both files "
            "files belong to the same model?"
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
