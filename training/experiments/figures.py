"""Figures of the results, as SVG: what ELMo brings, by the size of the training data, by layer, and the mixes."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments import ner, pos
from experiments.mixing_tables import learnt_weights
from experiments.table_contents import gains
from experiments.tables import Mean, Results
from hf_elmo.layer_weights import show_layer_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WITHOUT, _WITH = "#9aa5b1", "#1f6f8b"


def write_figures(folder: Path, results: Results) -> list[str]:
    """Draw what can be drawn of the results there are; the names of the files.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise ImportError('the figures need matplotlib: pip install "spacy-elmo[plots]"') from error
    mpl.use("Agg")
    drawings: dict[str, Callable[[Results], Figure | None]] = {
        "gains": _gains,
        "data-size": _data_size,
        "layers": _by_layer,
        "layer-weights": _layer_weights,
    }
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, draw in drawings.items():
        figure = draw(results)
        if figure is not None:
            beside = folder / f".{name}.partial.svg"
            # The same results give the same bytes.
            with mpl.rc_context({"svg.hashsalt": "hf_elmo"}):
                figure.savefig(beside, format="svg", bbox_inches="tight", metadata={"Date": None})
            beside.replace(folder / f"{name}.svg")
            written.append(f"{name}.svg")
    return written


def _gains(results: Results) -> "Figure | None":
    """One line for each pair of rows, from without to with."""
    rows = gains(results).rows[::-1]
    if not rows:
        return None
    figure, axes = _figure(8, 0.8 + 0.3 * len(rows))
    for place, (_, without, with_elmo, reduction) in enumerate(rows):
        assert isinstance(without, Mean)
        assert isinstance(with_elmo, Mean)
        axes.plot([without.value, with_elmo.value], [place, place], color=_WITH, linewidth=1.5, zorder=1)
        for score, colour in ((without, _WITHOUT), (with_elmo, _WITH)):
            axes.errorbar(score.value, place, xerr=score.deviation, fmt="o", color=colour, capsize=2, zorder=2)
        axes.annotate(
            f"{reduction}",
            (max(score.value + (score.deviation or 0) for score in (without, with_elmo)), place),
            (8, -3),
            textcoords="offset points",
            fontsize=8,
        )
    axes.set_yticks(range(len(rows)), [str(row[0]) for row in rows], fontsize=8)
    axes.set_xlabel("score without (grey) and with ELMo (blue), and how much of the error is gone")
    axes.margins(x=0.15)
    return figure


def _data_size(results: Results) -> "Figure | None":
    """As the paper's Figure 1, right: the score by the share of the training data."""
    curves: list[tuple[str, str, dict[int, Mean]]] = []
    for task in ner.FILES:
        for elmo in ("none", "input"):
            found = {
                percent: results.mean("f1", "ner", task=task, network="spacy", percent=percent, elmo=elmo)
                for percent in (1, 10, 100)
            }
            points = {percent: score for percent, score in found.items() if score is not None}
            if points:
                curves.append((task, elmo, points))
    if not curves:
        return None
    figure, axes = _figure(5.5, 3.5)
    for task, elmo, points in curves:
        axes.errorbar(
            list(points),
            [score.value for score in points.values()],
            yerr=[score.deviation or 0 for score in points.values()],
            marker="o" if task == "conll03" else "s",
            linestyle="-" if task == "conll03" else "--",
            color=_WITHOUT if elmo == "none" else _WITH,
            label=f"{task}, {'without' if elmo == 'none' else 'with'} ELMo",
            capsize=2,
        )
    axes.set_xscale("log")
    axes.set_xticks([1, 10, 100], ["1 %", "10 %", "100 %"])
    axes.set_xlabel("training sentences")
    axes.set_ylabel("F1 of entities, spaCy's CPU pipeline")
    axes.legend(fontsize=8)
    return figure


def _by_layer(results: Results) -> "Figure | None":
    """Part of speech and word sense by layer."""
    curves = {f"POS {corpus}, linear probe": results.metrics(f"pos-{corpus}-probe") for corpus in pos.FILES}
    senses = results.metrics("senses-wsd")
    curves["word senses, nearest average (F1)"] = {
        name.removesuffix("_all"): value for name, value in senses.items() if name.endswith("_all")
    }
    curves = {name: metrics for name, metrics in curves.items() if "layer0" in metrics}
    if not curves:
        return None
    figure, axes = _figure(5.5, 3.5)
    for name, metrics in curves.items():
        layers = sorted(key for key in metrics if key.startswith("layer"))
        axes.plot([metrics[key] for key in layers], marker="o", label=name)
        names = ["token layer", *(f"biLSTM {number}" for number in range(1, len(layers)))]
        axes.set_xticks(range(len(layers)), names)
    if "first_sense_all" in senses:
        axes.axhline(senses["first_sense_all"], color=_WITHOUT, linestyle=":", label="first sense of WordNet")
    axes.set_ylabel("percent")
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _layer_weights(results: Results) -> "Figure | None":
    weights: Any = learnt_weights(results)
    return show_layer_weights(weights).figure if weights else None


def _figure(width: float, height: float) -> tuple["Figure", Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    axes = figure.subplots()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    return figure, axes
