"""The README's programs run as they stand there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.oracles import random_weights

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
# So small that two steps of training show nothing but that the commands fit together.
TINY_RUN = (
    "--max_steps 2 --per_device_train_batch_size 2 --heldout_tokens 40 --model lstm_size=8 projection_size=4 "
    "character_filters=[[1,4],[2,4]] num_negative_samples=4"
)


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def _commands(prefix: str) -> list[str]:
    return [line for block in _blocks("bash") for line in block.splitlines() if line.startswith(prefix)]


def run_command(command: list[str], folder: Path) -> None:
    """In a folder, as a user would; the program must succeed."""
    scripts = Path(sys.executable).parent
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("program", _blocks("python"), ids=["spacy", "transformers"])
def test_python(program: str, tmp_path: Path) -> None:
    run_command([sys.executable, "-c", program], tmp_path)


def test_converting(tmp_path: Path) -> None:
    options = random_weights.options("tiny")
    random_weights.write_options(tmp_path / "options.json", options)
    random_weights.write_hdf5(tmp_path / "weights.hdf5", random_weights.random_weights(options, seed=0))
    (tmp_path / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nthe\n", encoding="utf-8")
    (command,) = _commands("hf-elmo convert")
    run_command(command.split(), tmp_path)
    assert (tmp_path / "my-elmo" / "model.safetensors").is_file()


@pytest.mark.slow
def test_pretraining(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    for number in range(20):
        text = f"This is text number {number}. It has some words, and another sentence follows. " * 3
        (tmp_path / "texts" / f"{number}.txt").write_text(text, encoding="utf-8")
    prepare, pretrain, publish = (_commands(f"hf-elmo {name}")[0] for name in ("prepare", "pretrain", "publish"))
    run_command(prepare.replace("20000", "25").split(), tmp_path)
    run_command([*pretrain.split(), *TINY_RUN.split()], tmp_path)
    run_command(publish.split(), tmp_path)
    assert (tmp_path / "my-elmo" / "model.safetensors").is_file()


def test_the_two_commands_are_marked_for_continuous_integration() -> None:
    for name in ("run", "test"):
        assert re.search(rf"^<!-- {name} -->\n```bash\npython3 -m pip install .*\n```$", README, flags=re.MULTILINE)
