"""Files of safetensors with the permissions of any other file.

Since version 0.8 safetensors makes files that only their owner can read.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from safetensors import torch as safetensors_torch
from torch import Tensor

from hf_elmo.place_beside import place_inside


def make_ordinary(*files: Path) -> None:
    """Give files the permissions of a new file of their folder.

    Raises:
        OSError: no file can be made there.
    """
    for file in files:
        # Asking the process for its umask would change it for a moment, and a folder may have rules of its own.
        ordinary = place_inside(file.parent)
        ordinary.touch(exist_ok=False)
        try:
            mode = ordinary.stat().st_mode
        finally:
            ordinary.unlink()
        if file.stat().st_mode != mode:
            with suppress(PermissionError):  # on a file system that knows none
                file.chmod(mode)


def save_file(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write a file of tensors.

    Raises:
        OSError, SafetensorError: it cannot be written.
    """
    safetensors_torch.save_file(dict(tensors), path)
    make_ordinary(path)
