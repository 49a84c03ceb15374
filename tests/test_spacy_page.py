"""The blocks of docs/spacy.md run as they stand there, in their order."""

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import spacy
from spacy.tokens import DocBin
from spacy.util import load_model_from_config
from thinc.api import Config

from spacy_elmo.cli.main import COMMANDS
from spacy_elmo.component import ElmoComponent
from spacy_elmo.config_template import TASKS, build_config
from spacy_elmo.entry_points import DEFAULT_CONFIG
from spacy_elmo.scalar_mix import build_scalar_mix
from tests.spacy_elmo.toy_tasks import make_examples

PAGE = (Path(__file__).parents[1] / "docs" / "spacy.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
PROGRAM = "\n".join(block for language, block in BLOCKS if language == "python")
COMMAND_LINES = [line for language, block in BLOCKS if language == "bash" for line in block.splitlines()]


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_language_is_run() -> None:
    assert {language for language, _ in BLOCKS} == {"python", "bash", "ini"}


def test_python(tmp_path: Path) -> None:
    printed = _run([sys.executable, "-c", PROGRAM], tmp_path).splitlines()
    meanings, hits, words, emptied, several = printed
    assert 0 < float(meanings) < 0.99
    assert int(hits) == 1
    assert -1 < float(words) < 1
    assert emptied == "None"
    assert several == "20 (256,)"


@pytest.mark.slow
def test_commands(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    for name, count, seed in (("train", 60, 0), ("dev", 10, 1)):
        docs = [example.reference for example in make_examples(nlp, count=count, seed=seed)]
        DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / f"{name}.spacy")
    assert len(COMMAND_LINES) >= 8
    for line in COMMAND_LINES:
        program, *arguments = line.split()
        assert program == "python"
        printed = _run([sys.executable, *arguments], tmp_path)
        if "spacy_elmo cache" in line:
            assert "70 sentences computed" in printed
        if "spacy_elmo weights" in line:
            assert "ner" in printed
            assert "tagger" in printed
            assert (tmp_path / "weights.png").stat().st_size > 1000
    (built,) = (tmp_path / "en_news-1.0.0" / "dist").iterdir()
    assert str(built.relative_to(tmp_path)) in PAGE


def _blocks_of(component: str) -> list[str]:
    return [block for language, block in BLOCKS if language == "ini" and block.startswith(f"[components.{component}")]


def test_every_block_is_tried() -> None:
    assert len(_blocks_of("tagger")) + len(_blocks_of("ner.")) == sum(language == "ini" for language, _ in BLOCKS)


def test_a_component_with_a_bilm_of_its_own() -> None:
    (block,) = _blocks_of("tagger")
    config = Config().from_str('[nlp]\nlang = "en"\npipeline = ["tagger"]\n\n[components]\n\n' + block)
    nlp = load_model_from_config(config, auto_fill=True)
    nlp.initialize(lambda: make_examples(nlp))
    assert nlp("A word.")[0].tag_


def test_blocks_for_the_configuration_of_init_config() -> None:
    blocks = _blocks_of("ner.model.tok2vec.")
    assert len(blocks) == 2
    config = build_config(pipeline=["ner"])
    for block in blocks:
        name, given = block.split("]\n", maxsplit=1)
        place = config
        *path, last = name.strip("[").split(".")
        for part in path:
            place = place[part]
        place[last] = Config().from_str("[block]\n" + given)["block"]
    nlp = load_model_from_config(config, auto_fill=True)
    nlp.initialize(lambda: make_examples(nlp))
    tok2vec = nlp.get_pipe("ner").model.get_ref("tok2vec")
    assert {"bilstm_encoder", "scalar_mix"} <= {node.name for node in tok2vec.walk()}
    assert len(nlp("A word.")) == 3


def _table(heading: str) -> list[list[str]]:
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


def test_every_option_is_listed() -> None:
    assert {row[0].strip("`") for row in _table("Options of the component")} == DEFAULT_CONFIG.keys()


def test_options_and_defaults_of_the_mix_are_as_listed() -> None:
    listed = {row[0].strip("`"): row[1].strip("`") for row in _table("Mixing the layers")}
    parameters = inspect.signature(build_scalar_mix).parameters
    assert listed.pop("layers") == "all"
    assert parameters["layers"].default is None
    assert listed == {name: json.dumps(parameter.default) for name, parameter in parameters.items() if name != "layers"}


def test_defaults_are_as_listed() -> None:
    component = ElmoComponent()
    shim = component.shim
    effective = {
        "max_words_per_batch": shim.max_words_per_batch,
        "save_weights": shim.save_weights,
        "cache_size": shim.cache_options.cache_size,
        "store_dtype": shim.cache_options.store_dtype,
    }
    listed = {row[0].strip("`"): row[1].strip("`") for row in _table("Options of the component")}
    for name in ("all_layers", "set_vectors", "frozen", "learning_rate_factor"):
        effective[name] = DEFAULT_CONFIG[name]
    effective["precision"] = shim.precision
    for name, value in effective.items():
        assert listed[name] == json.dumps(value), name
    assert listed["cache_dir_size"] == f"{shim.cache_options.cache_dir_size / 1e9:.0f} GB"


def test_tasks_and_commands_are_named() -> None:
    assert all(f"`{task}`" in PAGE for task in TASKS)
    assert all(f"spacy_elmo {command}" in PAGE for command in COMMANDS)


def test_messages_are_those_of_the_code() -> None:
    """Every fixed part of a message that the last table names stands in the source."""
    package = Path(__file__).parents[1]
    files = [path for name in ("spacy_elmo", "hf_elmo") for path in (package / name).rglob("*.py")]
    sources = [path.read_text(encoding="utf-8") for path in files]
    source = re.sub(r"""["']\s*\n\s*f?["']""", "", "\n".join(sources))
    for message, _ in _table("When something goes wrong"):
        for quoted in re.findall(r"`([^`]*)`", message)[:1]:
            if " " not in quoted:
                continue
            parts = re.split(r"…|'[^']*'|\d+", quoted)
            for part in filter(None, (part.strip(" :;,") for part in parts)):
                assert part in source, part


def test_the_page_is_of_a_readable_length() -> None:
    assert len(PAGE.splitlines()) < 300
    assert max(map(len, PAGE.splitlines())) < 200
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (Path(__file__).parents[1] / "docs" / target).exists(), target
