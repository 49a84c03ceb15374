import io

from hf_elmo.cli.progress import ProgressLines, Speed, shown_progress
from hf_elmo.text_progress import Progress


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_words_a_second_and_time_left():
    clock = Clock()
    speed = Speed(clock)
    clock.seconds += 20
    assert speed.describe(Progress(1000, None)) == "1,000 words, 50 words/s"
    assert speed.describe(Progress(1000, 0.25)) == "1,000 words, 50 words/s, 25 %, 1 min 00 s left"
    # What another run did before says nothing of the speed: 5 % of the input took 20 seconds.
    assert speed.describe(Progress(1000, 0.9, 0.85)).endswith("90 %, 40 s left")
    assert speed.describe(Progress(0, 0.5, 0.5)) == "0 words, 0 words/s, 50 %"
    clock.seconds += 7180
    assert speed.describe(Progress(1000, 0.5)).endswith("2 h 00 min left")


def test_a_line_every_ten_seconds():
    clock, file = Clock(), io.StringIO()
    show = ProgressLines(file, clock)
    for _ in range(50):
        clock.seconds += 1
        show(Progress(1, None))
    assert file.getvalue().count("\n") == 5


def test_a_bar_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with shown_progress() as show:
        show(Progress(1234, 0.5))
    assert "1,234 words" in terminal.getvalue()
    assert "50%" in terminal.getvalue()
