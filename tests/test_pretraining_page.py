"""The commands of docs/pretraining.md run as they stand there, on a small text and with a small model."""

import re
from pathlib import Path

import pytest

from tests.test_readme import TINY_RUN, run_command

PAGE = (Path(__file__).parents[1] / "docs" / "pretraining.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"^```bash\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
SMALLER = {
    "prepare": "",
    "pretrain": TINY_RUN,
    "adapt": "--max_steps 2 --warmup_steps 0 --per_device_train_batch_size 2 --use_cpu true",
}


@pytest.mark.slow
def test_the_commands(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    for number in range(20):
        text = f"This is text number {number}. It has some words, and another sentence follows. " * 3
        (tmp_path / "texts" / f"{number}.txt").write_text(text, encoding="utf-8")
    for command in COMMANDS:
        name = command.split()[1]
        run_command([*command.replace("20000", "25").split(), *SMALLER.get(name, "").split()], tmp_path)
    for folder in ("my-lm", "my-domain", "my-elmo", "my-elmo-with-everything"):
        assert (tmp_path / folder / "model.safetensors").is_file()
    assert (tmp_path / "my-elmo-with-everything" / "hdf5" / "weights.hdf5").is_file()
    assert (tmp_path / "curve.png").stat().st_size > 1000
