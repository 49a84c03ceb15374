"""Precision, recall and F of several evaluations by `spacy evaluate --output`, side by side."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table


def main(paths: Sequence[str]) -> None:
    """Print a table with one row for each file, and one for each of its labels."""
    table = Table("pipeline", "label", *("precision", "recall", "F"))
    for path in map(Path, paths):
        metrics = json.loads(path.read_text(encoding="utf-8"))
        whole = {key: metrics[f"ents_{key}"] for key in "prf"}
        for label, scores in [("all", whole), *sorted((metrics["ents_per_type"] or {}).items())]:
            name = path.stem if label == "all" else ""
            table.add_row(name, label, *(f"{100 * (scores[key] or 0):.1f}" for key in "prf"))
    Console().print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
