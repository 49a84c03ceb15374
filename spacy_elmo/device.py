"""Where the biLM computes."""

import re

import torch
from thinc.api import get_torch_default_device


def check_device(device: str | None) -> None:
    """Refuse a name that is none; whether the device is there is asked when the weights are loaded.

    Raises:
        ValueError: another name.
    """
    if device is not None and re.fullmatch(r"cpu|mps|cuda(:\d+)?", device) is None:
        raise ValueError(
            f'device: got {device!r}; expected "cpu", "cuda", "cuda:0" (or another number), "mps", or null for the '
            "one that spaCy uses."
        )


def torch_device(device: str | None) -> torch.device:
    """The device of that name; None is the one that spaCy uses, see `spacy.prefer_gpu`.

    PyTorch alone is needed: spaCy's own layers use a GPU only where cupy is installed, the biLM also without.

    Raises:
        ValueError: this machine has no such device.
    """
    check_device(device)
    if device is None:
        return get_torch_default_device()
    if device.startswith("cuda"):
        number = int(device.partition(":")[2] or 0)
        if not torch.cuda.is_available():
            raise ValueError(
                f"device: got {device!r}; expected a device that is there: PyTorch {torch.__version__} finds no CUDA "
                f'GPU here ({_why_no_cuda()}). Set device = "cpu", or null for the one that spaCy uses.'
            )
        if number >= torch.cuda.device_count():
            raise ValueError(
                f"device: got {device!r}; expected a number below {torch.cuda.device_count()}, as many GPUs are here."
            )
    if device == "mps" and not torch.backends.mps.is_available():
        raise ValueError(
            "device: got 'mps'; expected a device that is there: Apple's GPUs are found on macOS only, by PyTorch "
            'builds for them. Set device = "cpu", or null for the one that spaCy uses.'
        )
    return torch.device(device)


def _why_no_cuda() -> str:
    if torch.version.cuda is None:
        return "this build of PyTorch is for the CPU only, see https://pytorch.org/get-started"
    return "see nvidia-smi for the driver, and CUDA_VISIBLE_DEVICES"
