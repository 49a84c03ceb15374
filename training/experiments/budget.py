"""How much an experiment may read: the whole programme overnight, or a few sentences to see that it runs."""

from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Budget(NamedTuple):
    """Bounds of every row.

    Attributes:
        name: "full" or "tiny".
        sentences: of each text, at most; None for all.
        words: of training, at most; None for each row's own.
        seeds: of the rows that are repeated.
    """

    name: str
    sentences: int | None
    words: int | None
    seeds: int

    def settings(self, *, words: int | None = None) -> dict[str, int | None]:
        """The bounds as a row's settings."""
        settings: dict[str, int | None] = {"most_sentences": self.sentences}
        if words is not None:
            settings["words"] = words if self.words is None else min(words, self.words)
        return settings


BUDGETS = {
    "full": Budget("full", sentences=None, words=None, seeds=3),
    "tiny": Budget("tiny", sentences=60, words=2000, seeds=1),
}


def first(items: list[T], most: int | None) -> list[T]:
    """So many of them, or all for None."""
    return items if most is None else items[:most]
