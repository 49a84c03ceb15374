"""The commands of docs/speed.md and of the benchmarks' README exist, with their flags."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
PAGES = [REPOSITORY / "docs" / "speed.md", REPOSITORY / "tests" / "benchmarks" / "README.md"]
COMMANDS = sorted(
    {
        command
        for page in PAGES
        for command in re.findall(r"python -m tests\.benchmarks\.[^`\n]+", page.read_text("utf-8"))
    }
)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_is_there(command: str) -> None:
    _, _, module, *arguments = command.split()
    source = (REPOSITORY / Path(*module.split("."))).with_suffix(".py").read_text(encoding="utf-8")
    assert "__main__" in source
    for flag in arguments:
        assert not flag.startswith("--") or f'"{flag}"' in source


def test_every_program_is_listed() -> None:
    folder = REPOSITORY / "tests" / "benchmarks"
    programs = {path.stem for path in folder.glob("*.py") if "__main__" in path.read_text("utf-8")}
    readme = PAGES[1].read_text(encoding="utf-8")
    for program in programs - {"fresh_process"}:  # which is started by another
        assert f"python -m tests.benchmarks.{program}" in readme
