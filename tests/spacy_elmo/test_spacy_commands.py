"""spaCy's own commands on a pipeline with ELMo, as a user types them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import spacy
from spacy.tokens import DocBin

from tests.spacy_elmo.toy_tasks import make_examples

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
TEXT = "The moper bark in Moperville ."


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def run_spacy(command: str, folder: Path) -> str:
    return run(sys.executable, "-m", "spacy", *command.split(), folder=folder)


@pytest.fixture(scope="module")
def project(tmp_path_factory, tiny_folder) -> Path:
    """A folder with a corpus and the configurations of the commands."""
    folder = tmp_path_factory.mktemp("project")
    nlp = spacy.blank("en")
    for name, count, seed in (("train", 120, 0), ("dev", 30, 1)):
        docs = [example.reference for example in make_examples(nlp, count=count, seed=seed)]
        DocBin(docs=docs, store_user_data=True).to_disk(folder / f"{name}.spacy")
    init = [sys.executable, "-m", "spacy_elmo", "init-config", "--pipeline", "ner,tagger", "--model", tiny_folder]
    run(*init, "--output", "frozen.cfg", "--output-mix", folder=folder)
    run(*init, "--output", "tuned.cfg", "--fine-tune", folder=folder)
    return folder


PATHS = "--paths.train train.spacy --paths.dev dev.spacy"


@pytest.fixture(scope="module")
def trained(project) -> Path:
    run_spacy(
        f"train frozen.cfg --output out {PATHS} --paths.elmo_cache cache "
        "--training.max_steps 60 --training.eval_frequency 30 --training.optimizer.learn_rate 0.01",
        project,
    )
    return project / "out" / "model-best"


@pytest.mark.parametrize("config", ["frozen", "tuned"])
def test_fill_config(project, config):
    printed = run_spacy(f"init fill-config {config}.cfg {config}_filled.cfg", project)
    assert "already complete" in printed
    lines = [line for line in (project / f"{config}.cfg").read_text().splitlines() if not line.startswith("#")]
    assert (project / f"{config}_filled.cfg").read_text().splitlines() == lines


@pytest.mark.parametrize("config", ["frozen", "tuned"])
def test_debug_config(project, config):
    assert "Config is valid" in run_spacy(f"debug config {config}.cfg {PATHS}", project)


def test_debug_data(project):
    printed = run_spacy(f"debug data frozen.cfg {PATHS}", project)
    assert "Pipeline can be initialized with data" in printed
    assert "sentencizer, elmo, ner, tagger" in printed


def test_train_and_evaluate(project, trained):
    assert list((project / "cache").glob("*/*.layers"))
    printed = run_spacy(f"evaluate {trained} dev.spacy --output scores.json", project)
    scores = json.loads((project / "scores.json").read_text())
    assert scores["tag_acc"] > 0.8
    assert scores["ents_f"] > 0.8
    assert "NER F" in printed


def test_train_the_bilm_too(project):
    printed = run_spacy(
        f"train tuned.cfg --output tuned {PATHS} --training.max_steps 20 --training.eval_frequency 10", project
    )
    assert "LOSS ELMO" in printed.upper()
    assert spacy.load(project / "tuned" / "model-last")(TEXT)._.elmo.any()


def test_the_saved_weights_are_a_model_to_train_on(project, trained):
    printed = run_spacy(
        f"train frozen.cfg --output again {PATHS} --components.elmo.model.name {trained / 'elmo' / 'model'} "
        "--training.max_steps 4 --training.eval_frequency 2",
        project,
    )
    assert "Saved pipeline" in printed


def test_benchmark_speed(project, trained):
    options = "--no-shuffle --batches 30 --batch-size 2 --warmup 1"
    printed = run_spacy(f"benchmark speed {trained} dev.spacy {options}", project)
    assert re.search(r"Mean: [\d.]+ words/s", printed)


def test_package_and_install(project, trained, tmp_path):
    """Into a new environment that has this one's packages below it, and without an index."""
    pytest.importorskip("setuptools", minversion="70.1", reason="it builds the package: pip install setuptools")
    expected = [(token.text, token.tag_) for token in spacy.load(trained)(TEXT)]
    run_spacy(f"package {trained} {tmp_path} --name toy --version 1.2.3", project)
    (built,) = tmp_path.glob("en_toy-1.2.3/dist/en_toy-1.2.3.tar.gz")
    meta = json.loads((tmp_path / "en_toy-1.2.3" / "meta.json").read_text())
    assert any(requirement.startswith("spacy-elmo>=") for requirement in meta["requirements"])
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "new", folder=tmp_path)
    (python,) = [path for path in (tmp_path / "new").glob("*/python*") if path.stem == "python"]
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(run(python, "-c", where, folder=tmp_path).strip())
    below = [str(REPOSITORY), *(path for path in sys.path if Path(path).name == "site-packages")]
    (packages / "below.pth").write_text("\n".join(below), encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index"]
    run(*pip, "--no-build-isolation", built, folder=tmp_path)
    printed = run(
        python,
        "-c",
        "import spacy, en_toy, json\n"
        "assert 'new' in en_toy.__file__, en_toy.__file__\n"
        f"doc = spacy.load('en_toy')({TEXT!r})\n"
        "assert doc._.elmo.any()\n"
        "print(json.dumps([[token.text, token.tag_] for token in doc]))",
        folder=tmp_path,
    )
    assert [tuple(pair) for pair in json.loads(printed.splitlines()[-1])] == expected
