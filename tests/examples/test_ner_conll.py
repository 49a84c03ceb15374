"""The example project runs as its files say: by weasel, and by hand."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from spacy_elmo.config_template import build_config, commented

PROJECT = Path(__file__).parents[2] / "examples" / "ner_conll"
CONTENT = yaml.safe_load((PROJECT / "project.yml").read_text(encoding="utf-8"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = shutil.ignore_patterns("cache", "corpus", "metrics", "training", "project.lock")
    return shutil.copytree(PROJECT, tmp_path / "ner_conll", ignore=made)


def run(command: str, folder: Path) -> str:
    scripts = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def scripts() -> list[str]:
    """Every command of the workflow `all`, with its variables filled in."""
    commands = {command["name"]: command["script"] for command in CONTENT["commands"]}
    lines = [line for name in CONTENT["workflows"]["all"] for line in commands[name]]
    return [re.sub(r"\$\{vars\.(\w+)\}", lambda name: str(CONTENT["vars"][name[1]]), line) for line in lines]


def by_hand() -> list[str]:
    blocks = re.findall(r"^```bash\n(.*?)^```$", (PROJECT / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    return next(block for block in blocks if "mkdir" in block).splitlines()


def test_the_readmes_commands_are_the_projects():
    assert by_hand()[1:] == scripts()[1:]


def test_the_configuration_is_what_the_command_writes():
    assert (PROJECT / "configs" / "elmo.cfg").read_text(encoding="utf-8") == commented(build_config(pipeline=["ner"]))


def test_the_sample_is_in_conlls_format():
    for name in ("train", "dev"):
        lines = (PROJECT / "data" / f"{name}.conll").read_text(encoding="utf-8").splitlines()
        for line in filter(None, lines):
            assert re.fullmatch(r"\S+ \S+ \S+ (O|[BI]-(PER|LOC|ORG))", line), line


def check_results(project: Path, printed: str) -> None:
    scores = {name: json.loads((project / "metrics" / f"{name}.json").read_text()) for name in ("plain", "elmo")}
    for name, score in scores.items():
        assert score["ents_f"] > 0.5, name
        assert f"{100 * score['ents_f']:.1f}" in printed
    assert "Share of each layer" in printed
    assert list((project / "cache").glob("*/*.layers"))


@pytest.mark.slow
def test_by_hand(project):
    check_results(project, "".join([run(command, project) for command in by_hand()]))
    again = run(
        "python -m spacy_elmo cache configs/elmo.cfg corpus/train.spacy corpus/dev.spacy --cache-dir cache", project
    )
    assert ": 0 sentences computed" in again  # training had read them all


@pytest.mark.slow
def test_by_weasel(project):
    pytest.importorskip("weasel", reason="spaCy projects need weasel: pip install weasel")
    check_results(project, run("python -m spacy project run all", project))
    assert "skipping" in run("python -m spacy project run all", project).lower()
    run("python -m spacy project run clean", project)
    assert not (project / "training").exists()
