"""Seconds to import and to load, and peak memory, each in fresh processes."""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from hf_elmo import ElmoModel
from tests.benchmarks.sentences import Text

IMPORTS = ("torch", "transformers.models.bert.modeling_bert", "hf_elmo", "spacy")
_REPOSITORY = Path(__file__).parents[2]


def import_seconds(*, repeats: int, threads: int) -> dict[str, float]:
    """Medians, by module; the first import of each is not counted, for it also fills the disk's cache."""
    found = {}
    for module in IMPORTS:
        runs = [_run(["--module", module], threads)["import_seconds"] for _ in range(repeats + 1)]
        found[module] = statistics.median(runs[1:])
    return found


def model_costs(
    name: str, model: ElmoModel, text: Text, folder: Path, *, repeats: int, threads: int
) -> dict[str, float]:
    """Medians of a model's figures; in a folder that is empty."""
    source = "shipped"
    if name != "shipped":
        source = str(folder / name)
        model.save_pretrained(source)
    sentences = folder / "sentences.json"
    sentences.write_text(json.dumps(text.sentences), encoding="utf-8")
    arguments = ["--module", "hf_elmo", "--model", source, "--sentences", str(sentences)]
    runs = [_run(arguments, threads) for _ in range(repeats)]
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def _run(arguments: list[str], threads: int) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.fresh_process", *arguments, "--threads", str(threads)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, cwd=_REPOSITORY, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures
