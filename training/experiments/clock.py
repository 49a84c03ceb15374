"""Seconds that training takes."""

import time
from collections.abc import Callable


def clock(device: str) -> Callable[[], float]:
    """On a CPU seconds of the processor, which do not depend on what else it does; on a GPU those on the wall.

    Args:
        device: "cpu" or "cuda".
    """
    return time.process_time if device == "cpu" else time.perf_counter
