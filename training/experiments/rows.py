"""A row is one experiment, and one file: what was measured, and all that it depends on."""

import hashlib
import importlib.metadata
import json
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch

from experiments.resources import Resources
from hf_elmo.new_file import write_file

Settings = Mapping[str, Any]
Result = dict[str, Any]

_PACKAGES = ("torch", "transformers", "spacy", "thinc", "numpy", "scikit-learn")


@dataclass
class Measurement:
    """What an experiment gives.

    Attributes:
        metrics: scores in percent, and counts.
        steps: updates of what was trained; 0 where nothing was.
        words: words that were read in them, or, where nothing was trained, in all.
        training_seconds: how long that took by the device's clock, without reading files, frozen layers and evaluation.
        layer_weights: per mix the share of each layer, and γ.
        details: lists and texts for the tables.
    """

    metrics: dict[str, float]
    steps: int = 0
    words: int = 0
    training_seconds: float = 0.0
    layer_weights: dict[str, tuple[list[float | None], float]] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One experiment.

    Attributes:
        name: of its file; parts joined by "-", from the general to the particular.
        group: of its table.
        settings: all that it is told; another value makes another experiment.
        measure: runs it.
        data: files and folders it reads, below the folder of data.
        minutes: an estimate, on one core of a CPU.
        reads_model: False where no biLM takes part: a new one leaves the row as it is.
        alone: nothing else is to run beside it, because time is what it measures.
    """

    name: str
    group: str
    settings: Settings
    measure: Callable[[Resources, Settings], Measurement]
    data: tuple[str, ...]
    minutes: float
    reads_model: bool = True
    alone: bool = False

    def key(self, resources: Resources) -> str:
        """What the row depends on, in 64 digits: settings, the data's bytes, and the model's weights."""
        parts = {
            "name": self.name,
            "settings": dict(self.settings),
            "data": {path: resources.fingerprint(path) for path in self.data},
            "model": resources.model_hash if self.reads_model else None,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def matches(self, patterns: list[str]) -> bool:
        """Whether one of the patterns is this row's name, its beginning up to a "-", or a glob of it."""
        return any(
            self.name == pattern or self.name.startswith(f"{pattern}-") or fnmatchcase(self.name, pattern)
            for pattern in patterns
        )


class RowFiles:
    """The rows that were measured, one JSON file each.

    Args:
        folder: is made where it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def read(self, row: Row) -> Result | None:
        """What is there of a row, whatever it was measured with."""
        try:
            result = json.loads((self.folder / f"{row.name}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return result if isinstance(result, dict) else None

    def is_done(self, row: Row, resources: Resources) -> bool:
        """Whether a row was measured with these settings, data and weights."""
        result = self.read(row)
        return result is not None and result.get("key") == row.key(resources)

    def write(self, row: Row, result: Result) -> None:
        """Beside, then renamed: a row is whole or not there."""
        write_file(self.folder / f"{row.name}.json", json.dumps(result, indent=1, ensure_ascii=False) + "\n")


def measure(row: Row, resources: Resources, *, command: str) -> Result:
    """Run a row; what its file holds."""
    torch.manual_seed(row.settings.get("seed", 0))
    start, computed = time.perf_counter(), time.process_time()
    measured = row.measure(resources, row.settings)
    minutes, computed_minutes = (time.perf_counter() - start) / 60, (time.process_time() - computed) / 60
    return {
        "name": row.name,
        "group": row.group,
        "command": command,
        "key": row.key(resources),
        "settings": dict(row.settings),
        "data": {path: resources.fingerprint(path) for path in row.data},
        "model": {"name": resources.shown_model, "weights": resources.model_hash} if row.reads_model else None,
        "steps": measured.steps,
        "words": measured.words,
        "minutes": round(minutes, 2),
        "cpu_minutes": round(computed_minutes, 2),
        "training_minutes": round(measured.training_seconds / 60, 3),
        "metrics": measured.metrics,
        "layer_weights": measured.layer_weights,
        "details": measured.details,
        "versions": {"python": platform.python_version(), **_versions()},
        "threads": torch.get_num_threads(),
        "device": resources.device,
        "estimated_minutes": row.minutes,
    }


def _versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
