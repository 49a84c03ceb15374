"""A task's examples as what the model reads."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from torch.utils.data import Dataset

ExampleT = TypeVar("ExampleT")
_HELD_OUT = 10  # a tenth


class EncodedExamples(Dataset, Generic[ExampleT]):
    """Examples that are spelled when they are read, so that memory is that of the text.

    Args:
        examples: a task's own.
        encode: an example to the model's inputs and labels.
    """

    def __init__(self, examples: Sequence[ExampleT], encode: Callable[[ExampleT], dict[str, Any]]) -> None:
        self.examples = examples
        self._encode = encode

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self._encode(self.examples[index])


def drawn(examples: Sequence[ExampleT], share: float, *, seed: int) -> list[ExampleT]:
    """A share of the examples, at least one, in their order; a smaller share is part of a larger one."""
    order = list(range(len(examples)))
    random.Random(seed).shuffle(order)
    chosen = order[: max(1, round(share * len(order)))]
    return [examples[place] for place in sorted(chosen)]


def held_out(examples: Sequence[ExampleT], *, seed: int) -> tuple[list[ExampleT], list[ExampleT]]:
    """All but a tenth of the examples, drawn by chance, and that tenth.

    Raises:
        ValueError: fewer than two examples.
    """
    if len(examples) < 2:
        raise ValueError("validation_file: got none, and one example only to hold out of; expected a file.")
    order = list(range(len(examples)))
    random.Random(seed).shuffle(order)
    chosen = set(order[: max(1, len(order) // _HELD_OUT)])
    rest = [example for place, example in enumerate(examples) if place not in chosen]
    return rest, [examples[place] for place in sorted(chosen)]


def counted(sentences: Iterable[Iterable[str]]) -> Counter[str]:
    """How often each word occurs."""
    counts: Counter[str] = Counter()
    for words in sentences:
        counts.update(words)
    return counts
