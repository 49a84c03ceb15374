"""What a person sees while a biLM is pretrained: speed, time left, and the share of what the machine could do."""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any, TextIO

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from hf_elmo.pretraining.machine_limit import MachineLimit

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

_SECONDS_BETWEEN_LINES = 10.0
_UPDATES_OF_SPEED = 50
_BAR_WIDTH = 60


class TrainingProgress(TrainerCallback):
    """A bar above its line on a terminal; elsewhere a line every ten seconds, and one for each evaluation.

    Shows the loss and the perplexities as they are logged; the speed is that of the last updates.

    Args:
        words_per_update: in each direction, over all processes.
        machine_limit: if given, the speed is also told as a share of it.
        stream: where to write; standard error by default.
    """

    def __init__(
        self, *, words_per_update: int, machine_limit: MachineLimit | None = None, stream: TextIO | None = None
    ) -> None:
        self.words_per_update = words_per_update
        self.machine_limit = machine_limit
        self.stream = stream if stream is not None else sys.stderr
        self._live: Live | None = None
        self._last_line = float("-inf")
        self._begin: tuple[float, int] = (0.0, 0)
        self._recent: deque[tuple[float, int]] = deque(maxlen=_UPDATES_OF_SPEED + 1)  # (time, updates done)
        self._logged: dict[str, str] = {}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Starts the clock: of a resumed run only what this process does counts for the time left."""
        self._begin = (time.monotonic(), state.global_step)
        self._recent.clear()
        self._recent.append(self._begin)
        if state.is_world_process_zero and self.stream.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(self._with_bar(state), console=Console(file=self.stream))
            self._live.start()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Moves the bar."""
        now = time.monotonic()
        self._recent.append((now, state.global_step))
        if self._live is not None:
            self._live.update(self._with_bar(state))
        elif state.is_world_process_zero and now - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._write_line(state)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Takes over what was logged."""
        logged = describe_log(logs or {})
        self._logged.update(logged)
        evaluated = logged.keys() - {"loss"}
        if evaluated and self._live is None and state.is_world_process_zero:
            self._write_line(state)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Leaves the finished bar on the screen."""
        self.close()

    def close(self) -> None:
        """Ends the bar, also where training ended by an error."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def describe(self, state: TrainerState) -> str:
        """Where the run stands, in a line."""
        parts = [f"update {state.global_step:,} of {state.max_steps:,}", *self._logged.values()]
        (first, updates_then), (last, updates_now) = self._recent[0], self._recent[-1]
        if last > first:
            words_per_second = (updates_now - updates_then) * self.words_per_update / (last - first)
            speed = f"{words_per_second:,.0f} words/s"
            if self.machine_limit is not None:
                speed += f" ({100 * self.machine_limit.share(words_per_second):.0f} % of the machine's limit)"
            parts.append(speed)
        done = state.global_step - self._begin[1]
        if done > 0 and state.global_step < state.max_steps:
            seconds = (time.monotonic() - self._begin[0]) * (state.max_steps - state.global_step) / done
            parts.append(f"{clock(seconds)} left")
        return ", ".join(parts)

    def _with_bar(self, state: TrainerState) -> Table:
        """The line below a bar, so that a narrow terminal wraps it and cuts nothing off."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        rows = Table.grid()
        rows.add_row(ProgressBar(total=state.max_steps, completed=state.global_step, width=_BAR_WIDTH))
        rows.add_row(Text(self.describe(state)))
        return rows

    def _write_line(self, state: TrainerState) -> None:
        self._last_line = time.monotonic()
        print(self.describe(state), file=self.stream, flush=True)


def describe_log(logs: dict[str, Any]) -> dict[str, str]:
    """What of a log entry is shown, by what it is about."""
    shown = {}
    if "loss" in logs:
        softmax = "sampled" if "sampled_softmax_loss" in logs else "full"
        shown["loss"] = f"loss {logs['loss']:.3f} ({softmax} softmax)"
    for name, value in logs.items():
        text = name.removeprefix("eval_").removesuffix("_perplexity")
        if name == f"eval_{text}_perplexity" and not text.endswith(("_forward", "_backward")):
            shown[text] = f"perplexity {value:.1f} ({text})"
    return shown


def clock(seconds: float) -> str:
    """Hours, minutes and seconds, as 1:02:03 or 2:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
