"""Rows in processes of their own, several at once: one that fails or is killed takes no other with it."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from types import FrameType

from experiments.rows import Row

Report = Callable[[Row, int, Path], None]


class Workers:
    """Processes that measure one row each.

    Args:
        command: what starts one, to which a row's name is added.
        number: how many run at once.
        threads: of each.
        logs: folder for what they print.
    """

    def __init__(self, command: Sequence[str], *, number: int, threads: int, logs: Path) -> None:
        self.command = list(command)
        self.number = number
        self.environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
        self.logs = logs
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False
        self._lock = threading.RLock()

    def run(self, rows: Sequence[Row], report: Report) -> None:
        """Run rows in their order, and those that must be alone after all others; `report` hears of each.

        Where this process is ended by SIGTERM or from the keyboard, the workers are ended too.
        """
        before = signal.signal(signal.SIGTERM, _interrupt)
        try:
            for number, some in (
                (self.number, [row for row in rows if not row.alone]),
                (1, [row for row in rows if row.alone]),
            ):
                with ThreadPoolExecutor(number) as pool:
                    waiting = [pool.submit(self._run, row, report) for row in some]
                    try:
                        for finished in wait(waiting, return_when=FIRST_EXCEPTION).done:
                            finished.result()
                    except BaseException:
                        self._stop()  # or the pool would wait for all of them
                        raise
        finally:
            signal.signal(signal.SIGTERM, before)

    def _run(self, row: Row, report: Report) -> None:
        log = self.logs / f"{row.name}.log"
        with log.open("wb") as output:
            with self._lock:
                if self._stopped:
                    return
                process = subprocess.Popen(
                    [*self.command, row.name], stdout=output, stderr=subprocess.STDOUT, env=self.environment
                )
                self._running.add(process)
            status = process.wait()
        with self._lock:
            self._running.discard(process)
            if self._stopped:
                return
            try:
                report(row, status, log)
            except BaseException:
                self._stop()  # before this thread begins the next row
                raise

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.terminate()


def last_line(log: Path) -> str:
    """The last that a worker printed, which of a failure is the error."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing"


def python() -> str:
    """The interpreter that runs this."""
    return sys.executable


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
