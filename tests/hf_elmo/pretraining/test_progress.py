import io
import re
from types import SimpleNamespace

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from hf_elmo.pretraining.machine_limit import MachineLimit
from hf_elmo.pretraining.progress import TrainingProgress, clock, describe_log

LIMIT = MachineLimit(flops_per_second=1000.0, flops_per_word=2.0)  # 500 words a second


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def time(monkeypatch):
    clock = SimpleNamespace(now=100.0, monotonic=lambda: clock.now)
    monkeypatch.setattr("hf_elmo.pretraining.progress.time", clock)
    return clock


class Run:
    """Trainer's calls, two seconds an update."""

    def __init__(self, progress: TrainingProgress, time, *, max_steps: int = 20, done: int = 0) -> None:
        self.progress, self.time = progress, time
        self.args = TrainingArguments(use_cpu=True)
        self.state = TrainerState(max_steps=max_steps, global_step=done, is_world_process_zero=True)
        self.call("on_train_begin")

    def call(self, event: str, **kwargs) -> None:
        getattr(self.progress, event)(self.args, self.state, TrainerControl(), **kwargs)

    def update(self, count: int = 1) -> None:
        for _ in range(count):
            self.time.now += 2
            self.state.global_step += 1
            self.call("on_step_end")


def test_a_line_every_ten_seconds_where_there_is_no_terminal(time):
    stream = io.StringIO()
    run = Run(TrainingProgress(words_per_update=100, machine_limit=LIMIT, stream=stream), time)
    run.update()
    run.call("on_log", logs={"loss": 5.4321, "sampled_softmax_loss": 5.4321})
    run.update(10)
    assert stream.getvalue().splitlines() == [
        "update 1 of 20, 50 words/s (10 % of the machine's limit), 0:38 left",
        "update 6 of 20, loss 5.432 (sampled softmax), 50 words/s (10 % of the machine's limit), 0:28 left",
        "update 11 of 20, loss 5.432 (sampled softmax), 50 words/s (10 % of the machine's limit), 0:18 left",
    ]


def test_an_evaluation_has_a_line_at_once(time):
    stream = io.StringIO()
    run = Run(TrainingProgress(words_per_update=100, stream=stream), time)
    run.update(2)
    perplexities = {"eval_a_perplexity": 81.26, "eval_a_forward_perplexity": 80.0, "eval_a_backward_perplexity": 82.0}
    run.call("on_log", logs={**perplexities, "eval_loss": 4.4})
    assert stream.getvalue().splitlines()[1:] == ["update 2 of 20, perplexity 81.3 (a), 50 words/s, 0:36 left"]


def test_the_speed_is_that_of_the_last_updates_and_the_time_left_of_this_process(time):
    progress = TrainingProgress(words_per_update=100, stream=io.StringIO())
    run = Run(progress, time, max_steps=1000, done=900)
    run.update(49)
    time.now += 100
    run.update()
    assert progress.describe(run.state) == "update 950 of 1,000, 25 words/s, 3:20 left"  # 50 in 200 s
    run.update(50)
    assert progress.describe(run.state) == "update 1,000 of 1,000, 50 words/s"


def test_a_bar_on_a_terminal(time):
    terminal = Terminal()
    run = Run(TrainingProgress(words_per_update=100, machine_limit=LIMIT, stream=terminal), time, max_steps=2)
    run.update()
    run.call("on_log", logs={"loss": 5.0})
    run.update()
    run.call("on_train_end")
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())  # without colours and cursor movements
    line = "update 2 of 2, loss 5.000 (full softmax), 50 words/s (10 % of the machine's limit)"
    assert " ".join(shown.split()).endswith(f"{60 * '━'} {line}")
    assert max(map(len, shown.splitlines())) <= 80
    run.progress.close()  # a second time does nothing
    assert terminal.getvalue().count("update 2 of 2") == 1


def test_other_processes_say_nothing(time):
    terminal = Terminal()
    run = Run(TrainingProgress(words_per_update=100, stream=io.StringIO()), time)
    run.state.is_world_process_zero = False
    run.progress.stream = terminal
    run.call("on_train_begin")
    run.update(20)
    run.call("on_log", logs={"eval_a_perplexity": 3.0})
    assert terminal.getvalue() == ""


def test_what_of_a_log_is_shown():
    assert describe_log({"grad_norm": 1.0, "learning_rate": 0.1, "train_runtime": 3.0}) == {}
    assert describe_log({"eval_going_forward_perplexity": 9.0}) == {}


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (61, "1:01"), (3599.6, "1:00:00"), (90_061, "25:01:01")])
def test_clock(seconds, text):
    assert clock(seconds) == text
