"""What tasks have learnt of the biLM's layers: the scalar mixes' weights as a table and as a figure.

As figure 2 of Peters et al. (2018): one row a task, one column a layer.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LayerWeights: TypeAlias = Mapping[str, tuple[Sequence[float | None], float]]

# Of the whole; the two ends of the eye's ability to tell a bar's length.
_BAR = 10
_ROW_INCHES, _COLUMN_INCHES = 0.45, 1.15


class ShownWeights(NamedTuple):
    """The same weights twice.

    Attributes:
        table: for the terminal, by rich.
        figure: for a file, `figure.savefig(path)`; None where it was not asked for.
    """

    table: Table
    figure: "Figure | None"


def show_layer_weights(tasks: LayerWeights, *, figure: bool = True) -> ShownWeights:
    r"""A table and a figure of the layers' shares \(s_k\) and of γ, per task.

    Args:
        tasks: per task the shares from the token layer up, which sum to 1, and γ; None for a layer that is not mixed.
        figure: False makes the table only, and needs no matplotlib.

    Raises:
        ValueError: no task, another number of layers from task to task, or shares that are none.
        ImportError: matplotlib is not installed.
    """
    depth = _check(tasks)
    return ShownWeights(_table(tasks, depth), _figure(tasks, depth) if figure else None)


def layer_names(depth: int) -> list[str]:
    """The names of a biLM's layers, token layer first."""
    return ["token", *(f"biLSTM {number}" for number in range(1, depth))]


def _check(tasks: LayerWeights) -> int:
    """The number of layers."""
    if not tasks:
        raise ValueError("tasks: got none; expected at least one task with its layers' weights.")
    depths = {task: len(weights) for task, (weights, _) in tasks.items()}
    if len(set(depths.values())) > 1:
        raise ValueError(f"tasks: got {depths} layers; expected the same number for all, as of one biLM.")
    for task, (weights, gamma) in tasks.items():
        shares = [weight for weight in weights if weight is not None]
        if not shares or not np.isfinite(gamma) or min(shares) < 0 or abs(sum(shares) - 1) > 1e-3:
            raise ValueError(
                f"tasks: got {list(weights)} and gamma = {gamma} for {task!r}; expected shares from 0 to 1 that sum to "
                "1, softmax(w), and a number."
            )
    return next(iter(depths.values()))


def _table(tasks: LayerWeights, depth: int) -> Table:
    table = Table(title="Share of each layer in the scalar mix", title_justify="left")
    table.add_column("task", no_wrap=True)
    for name in layer_names(depth):
        table.add_column(name, no_wrap=True)
    table.add_column("γ", justify="right", no_wrap=True)
    for task, (weights, gamma) in tasks.items():
        largest = max(weight for weight in weights if weight is not None)
        table.add_row(Text(task), *(_cell(weight, largest) for weight in weights), f"{gamma:.3f}")
    return table


def _cell(weight: float | None, largest: float) -> Text:
    """The number, and a bar as long as the share."""
    if weight is None:
        return Text("not mixed", style="dim")
    bar = "█" * round(weight * _BAR)
    return Text(f"{weight:.3f} {bar}", style="bold" if weight == largest else "")


def _figure(tasks: LayerWeights, depth: int) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('drawing needs matplotlib: pip install "spacy-elmo[plots]"') from error
    # (tasks, layers)
    shares = np.array([[np.nan if weight is None else weight for weight in weights] for weights, _ in tasks.values()])
    longest = max(map(len, tasks))
    figure = Figure(figsize=(1.4 + 0.085 * longest + _COLUMN_INCHES * depth, 1.6 + _ROW_INCHES * len(tasks)), dpi=150)
    figure.set_layout_engine("constrained")
    axes = figure.add_subplot()
    # cividis: read alike with and without colour vision, and in grey; the numbers stand there too.
    image = axes.imshow(shares, cmap="cividis", vmin=0.0, vmax=1.0, aspect="auto")
    axes.set_facecolor("0.9")  # layers that are not mixed
    axes.set_xticks(range(depth), layer_names(depth))
    labels = [f"{task}  (γ = {gamma:.2f})" for task, (_, gamma) in tasks.items()]
    axes.set_yticks(range(len(tasks)), labels)
    axes.set_xticks(np.arange(0.5, depth - 1), minor=True)
    axes.set_yticks(np.arange(0.5, len(tasks) - 1), minor=True)
    axes.grid(which="minor", color="white", linewidth=2)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    for row, column in np.ndindex(shares.shape):
        share = shares[row, column]
        text = "not mixed" if np.isnan(share) else f"{share:.2f}"
        axes.text(column, row, text, ha="center", va="center", color="white" if share < 0.5 else "black")
    axes.set_title("Share of each layer in the scalar mix", fontsize="medium")
    figure.colorbar(image, ax=axes, label="softmax(w)")
    return figure
