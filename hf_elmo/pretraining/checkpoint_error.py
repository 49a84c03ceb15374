"""What is said, and what is left, where a checkpoint cannot be written: a full disk, most often."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

# What torch's writer says, an error without a class or a number of its own.
_TORCH_WRITER = ("PytorchStreamWriter", "inline_container", "iostream error", "unexpected pos")


class CheckpointError(OSError):
    """A checkpoint could not be written; the ones before are as they were."""


@contextmanager
def unwritten_checkpoint(name: str, writing: Path, *, last_checkpoint: Callable[[], str | None]) -> Iterator[None]:
    """Turns the errors of three writers into one of a line, and removes what was written of the checkpoint.

    Args:
        name: of what is written.
        writing: the folder that it is written into, beside its place.
        last_checkpoint: tells the last complete one.

    Raises:
        CheckpointError: safetensors, torch or Python could not write.
    """
    try:
        yield
    except (OSError, SafetensorError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not any(words in str(error) for words in _TORCH_WRITER):
            raise
        free = shutil.disk_usage(writing.parent).free
        # What it takes up may be all that was left, and nobody can resume from it.
        shutil.rmtree(writing, ignore_errors=True)
        last = last_checkpoint()
        resume = (
            "There is no checkpoint yet"
            if last is None
            else f"The last usable checkpoint is {last}: make room, then go on with --resume_from_checkpoint true"
        )
        raise CheckpointError(
            f"{name} could not be written to {writing.parent}, where {free / 1e6:,.1f} MB are free: "
            f"{_reason(error)}.  {resume}."
        ) from error


def _reason(error: Exception) -> str:
    """The cause in a line; of torch's writer only that it failed can be known."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.strerror:
            return seen.strerror
        seen = seen.__context__
    if isinstance(error, RuntimeError):
        return "torch could not write the whole of a file"
    return " ".join(str(error).split())
