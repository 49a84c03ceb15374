"""The programs of docs/allennlp.md run as they stand there, one after the other."""

import re
import textwrap
from pathlib import Path

import pytest
import torch

import hf_elmo.allennlp
import hf_elmo.tfhub
from tests.hf_elmo.allennlp.original import write_original

PAGE = Path(__file__).parents[3] / "docs" / "allennlp.md"


def _blocks() -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```python\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for block in blocks]


def test_the_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_original(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    names: dict[str, object] = {"torch": torch}
    assert len(_blocks()) >= 8
    for number, block in enumerate(_blocks()):
        exec(compile(block, f"{PAGE.name}, program {number}", "exec"), names)
    assert names["first"].shape == (2, 3, 32)
    assert names["vectors"].shape == (1, 2, 256)
    assert names["outputs"]["elmo"].shape == (2, 6, 256)


def test_what_replaces_what_exists() -> None:
    text = PAGE.read_text(encoding="utf-8")
    imported = re.findall(r"\| `from hf_elmo\.allennlp import (.*?)` \|", text)
    names = {name.split(" as ")[0] for line in imported for name in line.split(", ")}
    assert names == set(hf_elmo.allennlp.__all__)
    for name in re.findall(r"\| `hf_elmo\.tfhub\.(\w+)", text):
        assert callable(getattr(hf_elmo.tfhub, name))
