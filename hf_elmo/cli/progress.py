"""How far a command is: a bar on a terminal, a line every ten seconds elsewhere, both to standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from hf_elmo.text_progress import Progress

_SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def shown_progress() -> Iterator[Callable[[Progress], None]]:
    """What to call with every step."""
    if not sys.stderr.isatty():
        yield ProgressLines(sys.stderr)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("reading", total=None)
        speed = Speed()

        def show(progress: Progress) -> None:
            total = None if progress.share is None else 1.0
            bar.update(task, completed=progress.share or 0.0, total=total, description=speed.describe(progress))

        yield show


class Speed:
    """Words a second since it was made, and the time left at that speed.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()

    def describe(self, progress: Progress) -> str:
        """One line."""
        elapsed = max(1e-9, self._clock() - self._start)
        text = f"{progress.words:,} words, {progress.words / elapsed:,.0f} words/s"
        if progress.share is None:
            return text
        now_done = progress.share - progress.share_before
        left = f", {_duration(elapsed * (1 - progress.share) / now_done)} left" if now_done > 0 else ""
        return f"{text}, {100 * progress.share:.0f} %{left}"


class ProgressLines:
    """Prints a line when the last one is ten seconds old.

    Args:
        file: where to.
        clock: seconds.
    """

    def __init__(self, file: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._clock = clock
        self._last = clock()
        self._speed = Speed(clock)

    def __call__(self, progress: Progress) -> None:
        """Print or leave it."""
        now = self._clock()
        if now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            print(self._speed.describe(progress), file=self._file, flush=True)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
