"""The commands and programs of docs/scripts.md run as they stand there, on small files."""

import re
import shlex
from pathlib import Path

import pytest

from hf_elmo.cli.main import COMMANDS as KNOWN
from hf_elmo.cli.main import main
from tests.hf_elmo.tasks.folders import conll, squad

pytest.importorskip("seqeval", reason='needs the extra: pip install "spacy-elmo[train]"')
pytest.importorskip("matplotlib", reason='needs the extra: pip install "spacy-elmo[plots]"')

PAGE = (Path(__file__).parents[1] / "docs" / "scripts.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(bash|python)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
COMMANDS = [line for language, block in BLOCKS for line in block.splitlines() if language == "bash"]
PROGRAMS = [block for language, block in BLOCKS if language == "python"]
SMALLER = "--use_cpu true --num_train_epochs 2 --classifier_lstm_size 8 --per_device_train_batch_size 4"
PAIRS = '{"premise": "It barks .", "hypothesis": "It is loud .", "label": "yes"}\n'
CONLLU = "1\tIt\t_\tPRON\n2\tbarks\t_\tVERB\n\n"
TEXT = "The dog let out a sharp bark .\nThe bark of the oak was rough .\nA loud bark !\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the page speaks of, and what its commands made of them."""
    folder = tmp_path_factory.mktemp("page")
    contents = {
        **{f"{name}.conll": conll(20) for name in ("train", "dev", "test")},
        **{f"{name}.csv": "text,label\n" + "It is good .,yes\nIt is bad .,no\n" * 10 for name in ("train", "dev")},
        "squad.json": squad(12),
        "train.conllu": CONLLU * 10,
        "nli.jsonl": (PAIRS + PAIRS.replace("yes", "no")) * 8,
        "trees.txt": "(3 (2 It) (4 good))\n(1 (2 It) (0 bad))\n" * 10,
        "my-ner.yaml": "train_file: train.conll\nencoder: linear\nlearning_rate: 1e-2\n",
        "text.txt": TEXT,
    }
    for name, content in contents.items():
        (folder / name).write_text(content, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in COMMANDS:
            program, name, *arguments = shlex.split(command)
            assert (program, name in KNOWN) == ("hf-elmo", True)
            smaller = SMALLER.split() if name.startswith("train-") else []
            assert main([name, *arguments, *smaller]) == 0, command
    return folder


@pytest.mark.slow
def test_commands(place: Path) -> None:
    assert len(COMMANDS) == 10
    for name in ("my-ner", "my-classifier", "my-qa", "my-pos", "my-nli", "my-sst2", "my-ner-2"):
        assert (place / name / "model.safetensors").is_file()
        assert (place / name / "README.md").is_file()
    assert all((place / name).stat().st_size > 1000 for name in ("weights.png", "senses.png"))


@pytest.mark.slow
def test_program(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    (program,) = PROGRAMS
    exec(compile(program, "docs/scripts.md", "exec"), {})


def test_flags_and_files_of_the_page_exist() -> None:
    """Every flag that the page names is one of the three commands'."""
    from transformers import HfArgumentParser

    from hf_elmo.tasks.classification import ClassificationOptions
    from hf_elmo.tasks.ner import NerOptions
    from hf_elmo.tasks.options import TaskTrainingArguments
    from hf_elmo.tasks.qa import QaOptions

    others = {"--help", "--config", "--model", "--raw", "--layer", "--max-uses", "--source", "--out"}
    flags = set(re.findall(r"--[a-z][\w-]*", PAGE)) - others
    known = {
        option
        for kind in (NerOptions, ClassificationOptions, QaOptions)
        for action in HfArgumentParser([kind, TaskTrainingArguments])._actions  # type: ignore[list-item]
        for option in action.option_strings
    }
    assert flags <= known
    for script in re.findall(r"training/\w+\.py", PAGE):
        assert (Path(__file__).parents[1] / script).is_file()
