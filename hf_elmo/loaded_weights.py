"""What is wrong with weights that were loaded, or could not be, said in one line."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping

from safetensors import SafetensorError

_BILM = ("character_cnn.", "layers.")


def bilm_weights(names: Iterable[str], prefix: str) -> set[str]:
    """Those names that are of a biLM's parameters, in a model whose biLM is called `prefix`."""
    return {name for name in names if name.removeprefix(f"{prefix}.").startswith(_BILM)}


def refuse_wrong(source: object, wrong: set[str]) -> None:
    """No weight may be left at a random value.

    Raises:
        ValueError: one is.
    """
    if wrong:
        more = f" and {len(wrong) - 1} more are" if len(wrong) > 1 else " is"
        raise ValueError(
            f"{source}: got weights that do not fit its config.json, {min(wrong)}{more} missing or of another shape; "
            "expected both files from one model."
        )


def refuse_other_shapes(source: object, mismatched: set[str]) -> None:
    """No mix and no head of a task may be replaced by a new one unasked.

    Raises:
        ValueError: one has another shape.
    """
    if mismatched:
        raise ValueError(
            f"{source}: got {', '.join(sorted(mismatched))} of another shape than this configuration's; expected the "
            "options it was saved with (num_labels, ...), or ignore_mismatched_sizes=True, to start these anew."
        )


def refuse_offloaded(device_map: Mapping[str, object]) -> None:
    """Every part is on a device that computes: an LSTM reads its weights whole, not by calls that could fetch them.

    Args:
        device_map: what Accelerate chose, by the names of modules; empty where there is one device.

    Raises:
        ValueError: a part is on the disk, or in the CPU's memory beside an accelerator.
    """
    devices = set(device_map.values())
    if "disk" in devices or ("cpu" in devices and len(devices) > 1):
        parts = sorted(name for name, device in device_map.items() if device in ("disk", "cpu"))
        raise ValueError(
            f"device_map: got {parts} offloaded; expected every part on a device that computes it.  Pass "
            'device_map="cpu", or a device that has room for the whole model.'
        )


@contextlib.contextmanager
def readable_weights(source: object) -> Iterator[None]:
    """Say where a damaged file is; the error of safetensors does not.

    Raises:
        ValueError: a file of weights cannot be read.
    """
    try:
        yield
    except SafetensorError as error:
        raise ValueError(
            f"{source}: cannot read its model.safetensors, which is damaged or cut off ({error}); "
            "copy or download it again."
        ) from error
