"""Where a drop-in's biLM comes from: the original's two files, by path or address, or a model of this package."""

from os import PathLike, fspath
from pathlib import Path

from hf_elmo.allennlp.download import downloaded, is_address
from hf_elmo.convert.conversion import load_original
from hf_elmo.model_source import load_model
from hf_elmo.modeling_elmo import ElmoModel

File = str | PathLike[str]


def load_bilm(options_file: File | None, weight_file: File | None) -> ElmoModel:
    """The model of two files, or of one name.

    Args:
        options_file: path or address of an options.json; without a `weight_file` the folder or Hub id of a model as
            `from_pretrained` loads it, or None for the model that ships with the package.
        weight_file: path or address of the weights.hdf5 that belongs to `options_file`.

    Raises:
        ImportError: h5py is not installed and `weight_file` is given.
        OSError: a file, folder or Hub id that is not there, or cannot be downloaded or read.
        ValueError: only one of the two files, or not what it should be.
    """
    options = None if options_file is None else fspath(options_file)
    if weight_file is None:
        if options is not None and (is_address(options) or Path(options).is_file() or options.endswith(".json")):
            raise ValueError(f"weight_file: got None; expected the weights.hdf5 that belongs to {options}.")
        return load_model(options)
    if options is None:
        raise ValueError(f"options_file: got None; expected the options.json that belongs to {fspath(weight_file)}.")
    return load_original(downloaded(options), downloaded(fspath(weight_file)))[0]
