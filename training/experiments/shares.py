"""A part of the training sentences."""

import random
from typing import TypeVar

T = TypeVar("T")


def share(items: list[T], *, percent: int, seed: int) -> list[T]:
    """So many percent of them, at least one; who trains with and without ELMo gets the same.

    Raises:
        ValueError: percent below 1 or above 100.
    """
    if not 1 <= percent <= 100:
        raise ValueError(f"percent: got {percent}; expected 1 to 100.")
    if percent == 100:
        return items
    return random.Random(seed).sample(items, max(1, round(len(items) * percent / 100)))
