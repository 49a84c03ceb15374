"""What it brings to go on training the biLM on the task's own unlabelled training text, before it is frozen."""

import json
from pathlib import Path
from typing import Any

from filelock import FileLock

from experiments import ner, pos
from experiments.budget import Budget, first
from experiments.readers.columns import read_columns
from experiments.readers.conllu import read_conllu
from experiments.resources import Resources
from experiments.rows import Measurement, Row, Settings
from hf_elmo.new_folder import new_folder

GROUP = "adaptation"
# Training text, and what is held out of it.
TEXTS = {
    "wnut17": (ner.FILES["wnut17"][0], "tasks/wnut17/dev.conll"),
    "ewt": (pos.FILES["ewt"][0], "tasks/ewt/dev.conllu"),
}
# A short text: few streams, so that there are updates enough.
OPTIONS: dict[str, Any] = {"streams": 8, "epochs": 3, "learning_rate": 0.0005, "dropout": 0.1}
# One pass alone, which forgets less.
ONCE: dict[str, Any] = {**OPTIONS, "epochs": 1}


def rows(budget: Budget) -> list[Row]:
    """The rows of groups ner and pos that read these texts, once more with the adapted biLM."""
    seeds = range(budget.seeds)
    found = [
        ner.row(budget, group=GROUP, task="wnut17", percent=percent, network=network, elmo="input", seed=seed)
        for percent, network in ((100, "spacy"), (10, "spacy"), (100, "crf"))
        for seed in (seeds if percent < 100 else (0,))
    ]
    found += [row for row in pos.probe_rows(budget, group=GROUP) if row.settings["task"] == "ewt"]
    found += [pos.tagger_row(budget, group=GROUP, corpus="ewt", percent=10, elmo="input", seed=seed) for seed in seeds]
    told = {"task": "wnut17", "percent": 10, "network": "spacy", "elmo": "input"}
    once = [ner.row(budget, group=GROUP, seed=seed, variant="once", **told) for seed in seeds]
    return [*(_adapted(row, OPTIONS) for row in found), *(_adapted(row, ONCE) for row in once)]


def _adapted(row: Row, options: dict[str, Any]) -> Row:
    """The same row, measured with the biLM that is adapted to its text."""

    def measure(resources: Resources, settings: Settings) -> Measurement:
        folder = adapted_model(resources, settings["task"], settings["adaptation"], settings["most_sentences"])
        measured = row.measure(resources.with_model(str(folder)), settings)
        measured.metrics |= _perplexities(folder)
        return measured

    settings = {**row.settings, "adaptation": options}
    data = tuple(dict.fromkeys((*row.data, *TEXTS[row.settings["task"]])))
    return Row(row.name, GROUP, settings, measure, data, minutes=row.minutes + 2)


def adapted_model(resources: Resources, task: str, options: dict[str, Any], most: int | None) -> Path:
    """The folder of the adapted model, which is made where it is missing; rows that run at once wait for each other."""
    from hf_elmo.pretraining.adapt import adapt
    from hf_elmo.pretraining.adapt_options import parse_adapt_arguments

    told = "-".join(str(value) for value in options.values())
    folder = resources.cache / "adapted" / f"{task}-{resources.model_hash[:12]}-{told}-{most or 'all'}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if folder.is_dir():
            return folder
        with new_folder(folder) as beside:
            train, heldout = (
                _write_text(beside, name, resources.path(path), most)
                for name, path in zip(("train", "heldout"), TEXTS[task], strict=True)
            )
            words = sum(len(line.split()) + 1 for line in train.read_text(encoding="utf-8").splitlines())
            updates = max(1, words // (options["streams"] * 20))
            adapt(
                parse_adapt_arguments(
                    [
                        "default" if resources.model is None else resources.model,
                        f"task:sentences={train}",
                        *("--heldout", f"task:sentences={heldout}"),
                        *("--output_dir", str(beside / "run")),
                        *("--per_device_train_batch_size", str(options["streams"])),
                        *("--max_steps", str(updates * options["epochs"])),
                        *("--learning_rate", str(options["learning_rate"])),
                        *("--model", f"dropout={options['dropout']}"),
                        *("--save_strategy", "no"),
                        *("--disable_tqdm", "true"),
                        *(("--use_cpu", "true") if resources.device == "cpu" else ()),
                    ]
                )
            )
            for file in (beside / "run").iterdir():
                if file.is_file():
                    file.rename(beside / file.name)
    return folder


def _write_text(folder: Path, name: str, path: Path, most: int | None) -> Path:
    """The words alone, one sentence a line."""
    sentences = first(read_conllu(path) if ".conllu" in path.name else read_columns(path), most)
    text = folder / f"{name}.txt"
    text.write_text("".join(" ".join(sentence.words) + "\n" for sentence in sentences), encoding="utf-8")
    return text


def _perplexities(folder: Path) -> dict[str, float]:
    """Of the held-out text before the first update and after the last, with the same softmax."""
    report = json.loads((folder / "heldout_perplexity.json").read_text(encoding="utf-8"))
    before = report["adaptation"]["start"]["task"]["perplexity"]
    return {"heldout_perplexity_before": before, "heldout_perplexity": report["eval_task_perplexity"]}
