"""The figure of a training run: training loss and held-out perplexity over the words read, of one run or several."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_elmo.new_file import new_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRAINING_LOG = "training_log.json"
FIGURE = "loss_curve.png"
FORMATS = (".png", ".svg", ".pdf")
# Okabe and Ito (2008): distinguishable with any kind of colour vision, yellow left out as too pale on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_LINES = ("-", "--", ":", "-.")
_MARKERS = "osD^vPX"
_POINTS_TO_SMOOTH = 100
_SMOOTHED_SHARE = 25  # of a curve's points, one goes into each mean
_LEGEND_INSIDE = 3


@dataclass(frozen=True)
class LearningCurve:
    """What a run's log says of its progress.

    Attributes:
        name: of the run.
        softmax: which one the training loss belongs to, `"sampled"` or `"full"`.
        loss: (update, nats per word), a mean over the updates since the entry before.
        perplexity: by held-out text (update, average of both directions).
        words_per_update: in each direction, or None where the log does not say.
    """

    name: str
    softmax: str
    loss: tuple[tuple[int, float], ...]
    perplexity: Mapping[str, tuple[tuple[int, float], ...]]
    words_per_update: float | None


def curve_of(log_history: Sequence[Mapping[str, Any]], name: str) -> LearningCurve:
    """The curve in the log of a Trainer.

    Raises:
        ValueError: the log has neither a training loss nor a perplexity.
    """
    losses, words_per_update, softmax = [], None, "full"
    # `hf-elmo pretrain` ends by evaluating on the whole texts, which is no point of the curve of their beginnings.
    while_training: dict[str, list[tuple[int, float]]] = {}
    at_the_end: dict[str, list[tuple[int, float]]] = {}
    perplexities = while_training
    for entry in log_history:
        update = int(entry.get("step", 0))
        if "loss" in entry:
            losses.append((update, float(entry["loss"])))
            softmax = "sampled" if "sampled_softmax_loss" in entry else "full"
            if update and "words" in entry:
                words_per_update = entry["words"] / update
        if "train_runtime" in entry:
            perplexities = at_the_end
        for text, value in _perplexities(entry):
            perplexities.setdefault(text, []).append((update, value))
    perplexities = while_training or at_the_end
    if not losses and not perplexities:
        raise ValueError(
            f"{name}: got a log without a loss or a perplexity; train for at least --logging_steps updates."
        )
    return LearningCurve(
        name, softmax, tuple(losses), {text: tuple(v) for text, v in perplexities.items()}, words_per_update
    )


def read_curve(run: str | Path, name: str | None = None) -> LearningCurve:
    """The curve of a run: its folder, also while it is still training, one of its checkpoints, or a log file.

    Raises:
        FileNotFoundError: there is no log.
        ValueError: it is no log of a training run.
    """
    path = log_file(Path(run))
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: got something that is no JSON ({error}); expected a {TRAINING_LOG}.") from error
    entries = content.get("log_history") if isinstance(content, dict) else content
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(f"{path}: got JSON without a list of log entries; expected a {TRAINING_LOG}.")
    return curve_of(entries, name if name is not None else _name_of(path))


def log_file(run: Path) -> Path:
    """Where the log of a run is: in its result, or in its last checkpoint.

    Raises:
        FileNotFoundError: nowhere.
    """
    if run.is_file():
        return run
    checkpoints = [path for path in run.glob("checkpoint-*") if path.name.partition("-")[2].isdecimal()]
    last = max(checkpoints, key=lambda path: int(path.name.partition("-")[2]), default=run)
    for file in (run / TRAINING_LOG, run / "trainer_state.json", last / "trainer_state.json"):
        if file.is_file():
            return file
    raise FileNotFoundError(
        f"{run}: holds no {TRAINING_LOG} and no checkpoint; expected the folder of a run of `hf-elmo pretrain`."
    )


def draw_curves(curves: Sequence[LearningCurve], out: str | Path) -> None:
    """Draw the runs over each other: on the left their training losses, on the right their held-out perplexities.

    The horizontal axis counts words in each direction where every log tells them, otherwise updates.

    Args:
        curves: one or more.
        out: the figure's file; its ending decides the format.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: no curve, or a format that is none of PNG, SVG and PDF.
        OSError: the file cannot be written.
    """
    out = Path(out)
    if not curves:
        raise ValueError("got no curve; expected at least one.")
    if out.suffix.lower() not in FORMATS:
        raise ValueError(f"{out}: got the ending {out.suffix!r}; expected one of {', '.join(FORMATS)}.")
    figure = learning_curve_figure(curves)
    out.parent.mkdir(parents=True, exist_ok=True)
    with new_file(out) as beside:
        figure.savefig(beside, dpi=150, format=out.suffix.lower().removeprefix("."))


def learning_curve_figure(curves: Sequence[LearningCurve]) -> Figure:
    """The figure itself, for who wants to change it.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        # Not pyplot: its figures are global, and it may want a display.
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('drawing needs matplotlib: pip install "spacy-elmo[plots]"') from error
    with_losses = any(curve.loss for curve in curves)
    with_perplexities = any(curve.perplexity for curve in curves)
    panels = with_losses + with_perplexities
    figure = Figure(figsize=(4.8 * panels, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = iter(figure.subplots(1, panels, squeeze=False)[0])
    in_words = all(curve.words_per_update for curve in curves)
    if with_losses:
        _draw_losses(next(axes), curves, in_words)
    if with_perplexities:
        _draw_perplexities(next(axes), curves, in_words)
    for axis in figure.axes:
        _finish_axis(axis, curves, in_words)
    if len(curves) == 1:
        figure.suptitle(curves[0].name)
    return figure


def _draw_losses(axis: Axes, curves: Sequence[LearningCurve], in_words: bool) -> None:
    for number, curve in enumerate(curves):
        if not curve.loss:
            continue
        x, y = _positions(curve, [update for update, _ in curve.loss], in_words), [loss for _, loss in curve.loss]
        colour, line = COLOURS[number % len(COLOURS)], _LINES[number // len(COLOURS) % len(_LINES)]
        label = curve.name if len(curves) > 1 else "training"
        window = len(y) // _SMOOTHED_SHARE if len(y) >= _POINTS_TO_SMOOTH else 1
        if window > 1:
            axis.plot(x, y, color=colour, linewidth=0.6, alpha=0.3)
            label += f", mean of {window} logged values"
        axis.plot(x, list(_running_mean(y, window)), line, color=colour, linewidth=1.6, label=label)
    axis.set_title("Training loss")
    softmaxes = sorted({curve.softmax for curve in curves if curve.loss})
    axis.set_ylabel(f"nats per word ({' or '.join(softmaxes)} softmax)")
    _limit_to_most(axis, [loss for curve in curves for _, loss in curve.loss])


def _draw_perplexities(axis: Axes, curves: Sequence[LearningCurve], in_words: bool) -> None:
    """One run: a colour for each text.  Several: a colour for each run, a line and marker for each text."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, ScalarFormatter

    texts = sorted({text for curve in curves for text in curve.perplexity})
    for number, curve in enumerate(curves):
        for text, values in curve.perplexity.items():
            which = texts.index(text)
            axis.plot(
                _positions(curve, [update for update, _ in values], in_words),
                [perplexity for _, perplexity in values],
                color=COLOURS[(which if len(curves) == 1 else number) % len(COLOURS)],
                markevery=max(1, len(values) // 12),
                label=text if len(curves) == 1 else None,
                **_text_style(which),
            )
    if len(curves) > 1:
        for number, curve in enumerate(curves):
            axis.plot([], [], color=COLOURS[number % len(COLOURS)], linewidth=3, label=curve.name)
        for which, text in enumerate(texts):
            axis.plot([], [], color="grey", label=text, **_text_style(which))
    axis.set_title("Held-out text")
    axis.set_ylabel("perplexity (full softmax, log scale)")
    axis.set_yscale("log")
    # Written out, since 10² says little between 60 and 400.
    low, high = axis.get_ylim()
    axis.yaxis.set_major_locator(MaxNLocator(7) if high < 4 * low else LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(ScalarFormatter())


def _text_style(which: int) -> dict[str, Any]:
    return {
        "linestyle": _LINES[which % len(_LINES)],
        "marker": _MARKERS[which % len(_MARKERS)],
        "markersize": 4,
        "linewidth": 1.4,
    }


def _finish_axis(axis: Axes, curves: Sequence[LearningCurve], in_words: bool) -> None:
    axis.grid(alpha=0.25, linewidth=0.5)
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_xlim(left=0)
    entries = len(axis.get_legend_handles_labels()[0])
    beside: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)} if entries > _LEGEND_INSIDE else {}
    axis.legend(frameon=False, fontsize="small", **beside)
    if not in_words:
        axis.set_xlabel("updates")
        return
    from matplotlib.ticker import EngFormatter

    axis.set_xlabel("words read in each direction")
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    sizes = {curve.words_per_update for curve in curves}
    if len(sizes) == 1:
        words = sizes.pop()
        assert words is not None
        updates = axis.secondary_xaxis("top", functions=_scaling(words))
        updates.set_xlabel("updates", fontsize="small")
        updates.tick_params(labelsize="small")
        updates.xaxis.set_major_formatter(EngFormatter(sep=""))


def _scaling(words_per_update: float) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """From words to updates and back."""
    return (lambda words: words / words_per_update), (lambda updates: updates * words_per_update)


def _limit_to_most(axis: Axes, values: Sequence[float]) -> None:
    """The first updates' losses are far above all others; the axis leaves their peak out where they are few."""
    finite = sorted(value for value in values if math.isfinite(value))
    if len(finite) >= _POINTS_TO_SMOOTH:
        low, high = finite[0], finite[int(0.98 * len(finite))]
        margin = 0.08 * (high - low) or 0.1
        axis.set_ylim(low - margin, high + margin)


def _positions(curve: LearningCurve, updates: Sequence[int], in_words: bool) -> list[float]:
    scale = curve.words_per_update if in_words else 1
    assert scale is not None
    return [update * scale for update in updates]


def _running_mean(values: Sequence[float], window: int) -> Iterator[float]:
    """The mean over a window around each value, cut off at both ends."""
    for place in range(len(values)):
        reach = min(window // 2, place, len(values) - 1 - place)
        part = values[place - reach : place + reach + 1]
        yield sum(part) / len(part)


def _perplexities(entry: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The averages of an entry; those of the two directions are left out."""
    suffix, prefix = "_perplexity", "eval_"
    names = {key[len(prefix) : -len(suffix)] for key in entry if key.startswith(prefix) and key.endswith(suffix)}
    for name in sorted(names):
        of_direction = name.endswith(("_forward", "_backward")) and name.rpartition("_")[0] in names
        if not of_direction:
            yield name, float(entry[f"{prefix}{name}{suffix}"])


def _name_of(log: Path) -> str:
    folder = log.resolve().parent
    if folder.name.startswith("checkpoint-"):
        return folder.parent.name
    return folder.name if log.name in (TRAINING_LOG, "trainer_state.json") else log.stem
