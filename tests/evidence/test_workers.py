import sys
from pathlib import Path

import pytest
from experiments.rows import Measurement, Row
from experiments.workers import Workers, last_line

# Called with a row's name: writes a file of that name; "fails" prints and fails, "sleeps" takes very long.
PROGRAM = """
import pathlib, sys, time
name = sys.argv[1]
print("of", name)
if name == "fails":
    sys.exit(3)
if name.startswith("sleeps"):
    pathlib.Path(name + ".begun").touch()
    time.sleep(600)
pathlib.Path(name).touch()
"""


def _rows(*names: str) -> list[Row]:
    return [Row(name, "g", {}, lambda r, s: Measurement({}), (), 1.0, alone=name == "alone") for name in names]


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workers:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    return Workers([sys.executable, "-c", PROGRAM], number=2, threads=1, logs=tmp_path / "logs")


def test_each_row_has_a_process_and_is_reported(workers: Workers, tmp_path: Path) -> None:
    reported: dict[str, tuple[int, str]] = {}
    workers.run(
        _rows("alone", "a", "fails", "b"),
        lambda row, status, log: reported.update({row.name: (status, last_line(log))}),
    )
    assert reported == {name: (3 if name == "fails" else 0, f"of {name}") for name in ("a", "b", "alone", "fails")}
    assert list(reported)[-1] == "alone", "after all others"
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "alone", "logs"}


def test_when_it_is_stopped_the_workers_are(workers: Workers, tmp_path: Path) -> None:
    def interrupt(row: Row, status: int, log: Path) -> None:
        while not (tmp_path / "sleeps.begun").exists():
            pass
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        workers.run(_rows("sleeps", "a", "sleeps-too"), interrupt)
    assert not (tmp_path / "sleeps").exists(), "ended before its time"
    assert not (tmp_path / "sleeps-too.begun").exists(), "not begun any more"
