"""Tables of results: means over seeds, relative error reduction, Markdown and JSON."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Result = Mapping[str, Any]

SEEDS = "Mean ± standard deviation (number of seeds); each seed also draws another part of the training data."


class Mean(NamedTuple):
    """A score over several seeds; the deviation is that of a sample, None for one seed."""

    value: float
    deviation: float | None
    seeds: int


Cell = Mean | float | str | None


class Table(NamedTuple):
    """What a reader sees.

    Attributes:
        name: of its place in the page.
        columns: their headings.
        rows: cells; None where nothing was measured.
        note: a sentence below it.
        texts: how many columns are texts, which begin at the left.
    """

    name: str
    columns: list[str]
    rows: list[list[Cell]]
    note: str = ""
    texts: int = 1

    def markdown(self) -> str:
        """As GitHub shows it, or a sentence where nothing was measured."""
        if not self.rows:
            return "*Not measured yet.*"
        lines = [self.columns, ["---" if n < self.texts else "---:" for n in range(len(self.columns))]]
        lines += [[_shown(cell) for cell in row] for row in self.rows]
        text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"{text}\n\n{self.note}" if self.note else text

    def json(self) -> dict[str, Any]:
        """The same with numbers as they are."""
        cells = [[cell._asdict() if isinstance(cell, Mean) else cell for cell in row] for row in self.rows]
        return {"name": self.name, "columns": self.columns, "rows": cells, "note": self.note}


class Results:
    """The rows that were measured.

    Args:
        results: what their files hold.
    """

    def __init__(self, results: Sequence[Result]) -> None:
        self.results = list(results)

    def find(self, group: str, **settings: Any) -> list[Result]:
        """The rows of a group with these settings; None stands for a setting that is not there."""
        return [
            result
            for result in self.results
            if result["group"] == group
            and all(result["settings"].get(name) == value for name, value in settings.items())
        ]

    def mean(self, metric: str, group: str, **settings: Any) -> Mean | None:
        """Over the seeds of otherwise equal rows; variants of a row are others."""
        found = self.find(group, **{"variant": None, **settings})
        return mean_of([result["metrics"][metric] for result in found if metric in result["metrics"]])

    def with_common_seeds(self, *compared: tuple[str, Mapping[str, Any]]) -> "Results":
        """Without the seeds that some of these rows were not measured with: means over others say nothing.

        Args:
            compared: group and settings of each; what was not measured at all does not count.
        """
        measured = [
            {result["settings"].get("seed") for result in self.find(group, **{"variant": None, **settings})}
            for group, settings in compared
        ]
        common = set.intersection(*filter(None, measured)) if any(measured) else set()
        return Results([result for result in self.results if result["settings"].get("seed") in {None, *common}])

    def metrics(self, name: str) -> Mapping[str, float]:
        """Of the row of a name; empty where it was not measured."""
        for result in self.results:
            if result["name"] == name:
                metrics: Mapping[str, float] = result["metrics"]
                return metrics
        return {}


def mean_of(values: Sequence[float]) -> Mean | None:
    """Mean and deviation; None of no values."""
    if not values:
        return None
    mean = sum(values) / len(values)
    if len(values) == 1:
        return Mean(mean, None, 1)
    return Mean(mean, math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1)), len(values))


def error_reduction(without: Mean | float | None, with_elmo: Mean | float | None) -> str | None:
    """How much of the error is gone, in percent: (with - without) / (100 - without), as in the paper's Table 1."""
    if without is None or with_elmo is None:
        return None
    before, after = (score.value if isinstance(score, Mean) else score for score in (without, with_elmo))
    return f"{100 * (after - before) / (100 - before):.1f} %" if before < 100 else None


def _shown(cell: Cell) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell.replace("|", "\\|")
    if isinstance(cell, Mean):
        value, deviation, seeds = cell
        return f"{value:.2f}" if deviation is None else f"{value:.2f} ± {deviation:.2f} ({seeds})"
    return f"{cell:,.0f}" if cell == int(cell) and abs(cell) >= 100 else f"{cell:.2f}"
