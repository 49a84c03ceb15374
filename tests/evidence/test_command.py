import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from experiments.budget import BUDGETS
from experiments.command import main
from experiments.programme import all_rows
from experiments.report import PAGE

REPOSITORY = Path(__file__).resolve().parents[2]
ROWS = ("senses-wic", "senses-neighbours", "senses-wsd", "pos-ewt-probe")


@pytest.fixture
def flags(data_dir: Path, model_dir: Path, tmp_path: Path) -> list[str]:
    return [
        *("--data", str(data_dir)),
        *("--out", str(tmp_path / "out")),
        *("--cache", str(tmp_path / "cache")),
        *("--wordnet", str(data_dir / "index.sense")),
        *("--model", str(model_dir)),
        *("--budget", "tiny"),
        *("--workers", "0"),
    ]


def _told(capsys: pytest.CaptureFixture[str], arguments: list[str], status: int) -> str:
    assert main(arguments) == status
    return "".join(capsys.readouterr())


def test_wrong_flags(flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--data: got" in _told(capsys, [*flags, "--data", str(tmp_path)], 2)
    assert "got 'nothing', which is no row" in _told(capsys, [*flags, "--only", "pos,nothing"], 2)
    assert "--workers, --threads: got -1 and 1" in _told(capsys, [*flags, "--workers", "-1"], 2)
    assert "no ELMo model 'nowhere/at/all'" in _told(capsys, [*flags, "--model", "nowhere/at/all"], 2)
    for wrong in (["--budget", "huge"], ["--onl", "pos"], ["--device", "tpu"]):
        with pytest.raises(SystemExit) as stopped:
            main([*flags, *wrong])
        assert stopped.value.code == 2
    missing = _told(capsys, [*flags, "--only", "senses-wsd", "--wordnet", str(tmp_path / "index.sense")], 2)
    assert "expected WordNet 3.0's index.sense, given by --wordnet" in missing
    assert not list((tmp_path / "out" / "rows").glob("senses-wsd*"))


def test_rows_are_measured_once(flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / PAGE).write_text("Prose.\n\n<!-- table: wic -->\n<!-- end of table -->\n\nMore.\n")
    chosen = [*flags, "--only", "senses-wic,senses-neighbours"]
    assert main(chosen) == 0
    row = out / "rows" / "senses-wic.json"
    result = json.loads(row.read_text())
    assert result["command"] == (
        "python training/evidence.py --data DATA_DIR --model MODEL --budget tiny --only senses-wic"
    )
    page = (out / PAGE).read_text()
    assert page.startswith("Prose.")
    assert page.endswith("More.\n")
    assert "| biLSTM 2 |" in page
    tables = json.loads((out / "tables.json").read_text())
    assert tables["measured"] == 2
    assert "biLSTM 2" in (out / "tables.md").read_text()
    before = row.stat().st_mtime_ns
    assert main(chosen) == 0
    assert row.stat().st_mtime_ns == before, "nothing is left to do"
    capsys.readouterr()
    listed = _told(capsys, [*flags, "--list"], 0)
    assert sum("│ done" in line for line in listed.splitlines()) == 2
    assert f"{len(all_rows(BUDGETS['tiny']))} rows, 2 done" in listed
    row.write_text(row.read_text()[:-20])
    assert main(chosen) == 0
    assert json.loads(row.read_text())["metrics"] == result["metrics"]


def test_only_tables(flags: list[str], tmp_path: Path) -> None:
    assert main([*flags, "--tables"]) == 0
    assert not list((tmp_path / "out" / "rows").iterdir())
    assert "*Not measured yet.*" in (tmp_path / "out" / "tables.md").read_text()


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_stopped(flags: list[str], tmp_path: Path) -> None:
    rows = tmp_path / "out" / "rows"
    command = [sys.executable, "training/evidence.py", *flags, "--workers", "1", "--only", ",".join(ROWS)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen(command, cwd=REPOSITORY, env=environment, start_new_session=True)
    end = time.monotonic() + 300
    while not list(rows.glob("*.json")):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = {path.name: path.stat().st_mtime_ns for path in rows.glob("*.json")}
    assert 0 < len(done) < len(ROWS)
    finished = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True)
    assert f"{len(ROWS) - len(done)} rows to be measured" in finished.stdout
    assert {path.stem for path in rows.glob("*.json")} == set(ROWS)
    assert all((rows / name).stat().st_mtime_ns == changed for name, changed in done.items())


@pytest.mark.slow
def test_a_row_that_fails_stops_no_other(flags: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "training/evidence.py", *flags, "--wordnet", str(tmp_path / "none")]
    command += ["--workers", "2", "--only", "senses"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    finished = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 1
    assert "senses-wsd: FAILED: evidence.py:" in finished.stdout
    assert "failed: senses-wsd" in finished.stderr
    assert {path.stem for path in (tmp_path / "out" / "rows").iterdir()} == {"senses-wic", "senses-neighbours"}
