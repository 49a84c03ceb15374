"""How far a command that reads text is."""

from typing import NamedTuple


class Progress(NamedTuple):
    """How far the reading of text is.

    Attributes:
        words: that were dealt with since this run began.
        share: of the input that is done, from 0 to 1, or None where its size is not known.
        share_before: of the input that had been done before this run.
    """

    words: int
    share: float | None
    share_before: float = 0.0
