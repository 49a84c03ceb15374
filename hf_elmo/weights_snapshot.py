"""Whether a model's weights are still those that were copied from it."""

import itertools

from torch import Tensor, nn


class WeightsSnapshot:
    """Remembers which tensors a module had, and how often each had been written to.

    Noticed are new tensors (another dtype, device, or loaded ones) and every change in place that PyTorch counts:
    optimizer steps, `load_state_dict`, `torch.nn.init`.  Not counted are changes through `.data`, and those of tensors
    created in inference mode.
    """

    def __init__(self, module: nn.Module) -> None:
        # Detached tensors share storage and count; that they are kept means no new tensor can get their address.
        self._tensors = [(tensor.detach(), _version(tensor)) for tensor in _tensors(module)]

    def matches(self, module: nn.Module) -> bool:
        """Whether all tensors are the same, unchanged."""
        now = list(_tensors(module))
        return len(now) == len(self._tensors) and all(
            tensor.data_ptr() == old.data_ptr()
            and tensor.dtype == old.dtype
            and tensor.device == old.device
            and _version(tensor) == version
            for tensor, (old, version) in zip(now, self._tensors, strict=True)
        )


def _tensors(module: nn.Module) -> itertools.chain[Tensor]:
    return itertools.chain(module.parameters(), module.buffers())


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version
