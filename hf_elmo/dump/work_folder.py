"""Where an unfinished dump keeps what is done, so that a killed run can be continued.

Beside OUT lies `.OUT.parts` until OUT is complete.  Every file in it appears complete, by a rename; so does OUT.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from hf_elmo.dump.parts import Part, read_words, sync
from hf_elmo.place_beside import linked_place

_SETTINGS = "settings.json"
# Says that `finished` is on its way to OUT.
_PLACING = "placing"
_REPLACED = "replaced"


class WorkFolder:
    """The folder beside `out`.

    Args:
        out: the file or folder to make; of a link, what it names.

    Attributes:
        out: as an absolute path without links.
        parts: the parts that are complete.
        texts: the words of parts that are to be computed by other processes.
        model: what these compute with.
        unfinished: files that are being written.
        finished: what is to become `out`.
    """

    def __init__(self, out: Path) -> None:
        self.out = linked_place(out)
        self.path = self.out.with_name(f".{self.out.name}.parts")
        self.parts = self.path / "parts"
        self.texts = self.path / "texts"
        self.model = self.path / "model"
        self.unfinished = self.path / "unfinished"
        self.finished = self.path / "finished"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out; the lock ends with the process that holds it.

        Raises:
            FileExistsError: another process has it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path / "lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise FileExistsError(
                f"{self.out}: another process is writing it; wait for that one, or choose another name."
            ) from None
        try:
            yield
        finally:
            lock.release()
            if self.path.is_dir() and {path.name for path in self.path.iterdir()} <= {"lock"}:
                shutil.rmtree(self.path, ignore_errors=True)

    @property
    def is_begun(self) -> bool:
        """Whether a run was begun here and not yet cleared away."""
        return (self.path / _SETTINGS).is_file()

    @property
    def is_placed(self) -> bool:
        """Whether a run came so far that `out` is in place, and was then broken off."""
        return self.is_begun and (self.path / _PLACING).exists() and not self.finished.exists() and self.out.exists()

    def begin(self, settings: dict[str, Any]) -> None:
        """Make the folder anew."""
        self.clear()
        self.parts.mkdir()
        self.texts.mkdir()
        self.unfinished.mkdir()
        written = self.unfinished / _SETTINGS
        written.write_text(json.dumps(settings, indent=1), encoding="utf-8")
        sync(written)
        os.replace(written, self.path / _SETTINGS)

    def resume(self, settings: dict[str, Any]) -> None:
        """Go on with a run that was broken off.

        Raises:
            ValueError: it has other settings.
        """
        before = json.loads((self.path / _SETTINGS).read_text(encoding="utf-8"))
        for name, value in settings.items():
            if before.get(name) != value:
                raise ValueError(
                    f"{self.out}: the unfinished run has {name} {before.get(name)!r}; got {value!r}; continue it with "
                    "what it was begun with, or begin anew with --overwrite instead of --resume."
                )
        for path in (*self.unfinished.iterdir(), *self.texts.iterdir()):
            path.unlink()

    def part_file(self, number: int) -> Path:
        """Where a part is, or is to be."""
        return self.parts / f"{number:05d}.safetensors"

    def part_files(self) -> list[Path]:
        """The parts that are complete, by their numbers."""
        return sorted(self.parts.glob("*.safetensors"), key=lambda path: int(path.stem))

    def has(self, part: Part) -> bool:
        """Whether a part is complete.

        Raises:
            ValueError: it is, but of another text.
        """
        path = self.part_file(part.number)
        if not path.is_file():
            return False
        first, sentences = read_words(path)
        if first != part.first or sentences != part.sentences:
            raise ValueError(
                f"{self.out}: got another text than that of the unfinished run, from sentence {part.first} or one of "
                f"the {len(part.sentences) - 1} after it on; give the same text, or begin anew with --overwrite."
            )
        return True

    def check_no_more_than(self, count: int) -> None:
        """Refuse parts beyond the end of the text.

        Raises:
            ValueError: the text was longer.
        """
        if len(self.part_files()) > count:
            raise ValueError(
                f"{self.out}: got a text that ends before that of the unfinished run; give the same text, or begin "
                "anew with --overwrite."
            )

    def place(self) -> None:
        """Put what is finished in its place, instead of what may be there, and clear the rest away."""
        (self.path / _PLACING).touch()
        if self.out.is_dir():
            os.rename(self.out, self.path / _REPLACED)
        os.replace(self.finished, self.out)
        self.clear()

    def clear(self) -> None:
        """Remove everything but the lock; first that which says that a run was begun."""
        (self.path / _SETTINGS).unlink(missing_ok=True)
        for path in self.path.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != "lock":
                path.unlink()
