"""The learning curve of a task: losses and the validation metric over the epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hf_elmo.pretraining.learning_curve import COLOURS


def draw_task_curve(log_history: Sequence[Mapping[str, Any]], metric: str, out: str | Path) -> None:
    """Draw the log of a Trainer into a file; its ending decides the format.

    Args:
        log_history: of the Trainer.
        metric: the name of the one by which an epoch is the best.
        out: the figure's file.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: the log has no evaluation.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError as error:
        raise ImportError('drawing needs matplotlib: pip install "spacy-elmo[plots]"') from error
    key = f"eval_{metric}"
    # What follows the training is the evaluation of the best epoch once more.
    end = next((place for place, entry in enumerate(log_history) if "train_runtime" in entry), len(log_history))
    evaluated = [(entry["epoch"], entry["eval_loss"], entry[key]) for entry in log_history[:end] if key in entry]
    trained = [(entry["epoch"], entry["loss"]) for entry in log_history[:end] if "loss" in entry]
    if not evaluated:
        raise ValueError(f"got a log without {key}; expected at least one evaluation.")
    figure = Figure(figsize=(8, 3), dpi=150, layout="constrained")
    losses, metrics = figure.subplots(1, 2)
    epochs = [epoch for epoch, _, _ in evaluated]
    losses.plot(*zip(*trained, strict=True), color=COLOURS[0], marker="o", markersize=3, label="training")
    losses.plot(
        epochs, [loss for _, loss, _ in evaluated], "--", color=COLOURS[1], marker="s", markersize=3, label="validation"
    )
    losses.set_ylabel("loss")
    losses.legend(frameon=False)
    values = [value for _, _, value in evaluated]
    metrics.plot(epochs, values, color=COLOURS[1], marker="s", markersize=3)
    best = max(range(len(values)), key=values.__getitem__)
    metrics.plot([epochs[best]], [values[best]], "o", markersize=11, fillstyle="none", color=COLOURS[6])
    metrics.set_ylabel(f"validation {metric}")
    for axis in (losses, metrics):
        axis.set_xlabel("epoch")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid(alpha=0.25, linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(out)
