"""The commands and programs of docs/embed.md run as they stand there."""

import gzip
import importlib.util
import re
from pathlib import Path

import pytest

from hf_elmo import ElmoTokenizer
from hf_elmo.cli.main import main
from tests.hf_elmo.models import random_lm

PAGE = (Path(__file__).parents[1] / "docs" / "embed.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(bash|python)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
COMMANDS = [line for language, block in BLOCKS for line in block.splitlines() if language == "bash"]
PROGRAMS = [block for language, block in BLOCKS if language == "python"]
ON_RAY = [command for command in COMMANDS if "--engine ray" in command]

TEXT = "The dog let out a sharp bark .\nHello !\n\nThe bark of the old oak was rough .\n"
WORDS = ["<S>", "</S>", "<UNK>", *sorted(set(TEXT.split()))]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the page speaks of, and what its commands made of them."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    (folder / "text.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    (folder / "raw.txt").write_text("The dog didn't bark. It slept.\n", encoding="utf-8")
    random_lm(vocab_size=len(WORDS) + 1).save_pretrained(folder / "my-lm")
    ElmoTokenizer(WORDS).save_pretrained(folder / "my-lm")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in COMMANDS:
            program, *arguments = command.split()
            assert program == "hf-elmo"
            if command not in ON_RAY:
                assert main(arguments) == 0, command
    return folder


def test_commands(place: Path) -> None:
    assert len(COMMANDS) == 12
    made = ("vectors.hdf5", "vectors.parquet", "vectors", "raw.parquet", "sentences.tsv", "scores.jsonl")
    assert all((place / name).exists() for name in made)


@pytest.mark.parametrize("program", PROGRAMS, ids=["hdf5", "parquet", "safetensors", "dump", "score"])
def test_programs(place: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.chdir(place)
    exec(compile(program, "docs/embed.md", "exec"), {})


def test_shapes_are_those_of_the_comments(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    found: list[dict[str, object]] = [{}, {}]
    for program, names in zip(PROGRAMS[:2], found, strict=True):
        exec(compile(program, "docs/embed.md", "exec"), names)
    assert found[0]["vectors"].shape == (3, 8, 256)  # type: ignore[attr-defined]
    assert found[1]["vectors"].shape == (9, 256)  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason='Ray is not installed: pip install ".[ray]"')
def test_command_of_ray(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.chdir(place)
    (command,) = ON_RAY
    assert main(command.split()[1:]) == 0
    ray.shutdown()
    assert (place / "from-ray.parquet").is_file()
