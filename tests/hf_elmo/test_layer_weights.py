import io
import sys

import numpy as np
import pytest
from rich.console import Console

from hf_elmo.layer_weights import layer_names, show_layer_weights

TASKS = {
    "ner: input": ([0.2, 0.5, 0.3], 1.1),
    "ner: output": ([0.25, 0.35, 0.4], 0.93),
    "tagger": ([None, 0.8, 0.2], -2.0),
}


@pytest.fixture
def matplotlib():
    return pytest.importorskip("matplotlib", reason='needs matplotlib: pip install "spacy-elmo[plots]"')


def printed(table, width: int = 100) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width).print(table)
    return stream.getvalue()


def test_the_table_has_every_number():
    text = printed(show_layer_weights(TASKS, figure=False).table)
    for task, (weights, gamma) in TASKS.items():
        (line,) = [line for line in text.splitlines() if f" {task} " in line]
        numbers = [f"{weight:.3f}" for weight in weights if weight is not None] + [f"{gamma:.3f}"]
        assert [word for word in line.split() if word in numbers] == numbers
        assert ("not mixed" in line) is (None in weights)
    assert all(name in text for name in ["token", "biLSTM 1", "biLSTM 2", "γ"])


@pytest.mark.parametrize("share", [0.0, 0.26, 0.74, 1.0])
def test_a_bar_is_as_long_as_the_share(share):
    text = printed(show_layer_weights({"a": ([share, 1 - share], 1.0)}, figure=False).table)
    assert text.count("█") == round(10 * share) + round(10 * (1 - share))


def test_names_with_brackets_are_printed_as_they_are():
    assert "[bold]x" in printed(show_layer_weights({"[bold]x": ([1.0], 1.0)}, figure=False).table)


def test_the_figure_shows_the_same(matplotlib, tmp_path):
    figure = show_layer_weights(TASKS).figure
    axes = figure.axes[0]
    expected = np.array([[np.nan if w is None else w for w in weights] for weights, _ in TASKS.values()])
    image = axes.images[0]
    np.testing.assert_array_equal(image.get_array().filled(np.nan), expected)
    assert image.get_clim() == (0.0, 1.0)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["token", "biLSTM 1", "biLSTM 2"]
    for label, (task, (_, gamma)) in zip(axes.get_yticklabels(), TASKS.items(), strict=True):
        assert label.get_text() == f"{task}  (γ = {gamma:.2f})"
    written = {(round(t.get_position()[1]), round(t.get_position()[0])): t.get_text() for t in axes.texts}
    for (row, column), share in np.ndenumerate(expected):
        assert written[row, column] == ("not mixed" if np.isnan(share) else f"{share:.2f}")
    for ending in ("png", "svg", "pdf"):
        figure.savefig(tmp_path / f"weights.{ending}")
        assert (tmp_path / f"weights.{ending}").stat().st_size > 1000


def luminance(color) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color[:3]]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def test_every_number_is_legible_and_darker_means_less_without_colours(matplotlib):
    """Contrast as the Web Content Accessibility Guidelines 2 compute it; 3:1 is asked for large text."""
    shares = np.linspace(0, 1, 41)
    tasks = {str(i): ([share, 1 - share], 1.0) for i, share in enumerate(shares)}
    figure = show_layer_weights(tasks).figure
    image, texts = figure.axes[0].images[0], figure.axes[0].texts
    grey = [luminance(image.cmap(image.norm(share))) for share in shares]
    assert all(np.diff(grey) > 0)
    for text in texts:
        column, row = map(round, text.get_position())
        behind = luminance(image.cmap(image.norm(tasks[str(row)][0][column])))
        ink = luminance(matplotlib.colors.to_rgb(text.get_color()))
        assert (max(behind, ink) + 0.05) / (min(behind, ink) + 0.05) >= 3


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'pip install "spacy-elmo\[plots\]"'):
        show_layer_weights(TASKS)
    assert show_layer_weights(TASKS, figure=False).figure is None


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ({}, "tasks: got none"),
        ({"a": ([0.5, 0.5], 1.0), "b": ([1.0], 1.0)}, r"tasks: got \{'a': 2, 'b': 1\} layers"),
        ({"a": ([0.5, 0.6], 1.0)}, "got .* for 'a'; expected shares"),
        ({"a": ([1.5, -0.5], 1.0)}, "expected shares from 0 to 1"),
        ({"a": ([None, None], 1.0)}, "expected shares"),
        ({"a": ([0.5, 0.5], float("nan"))}, "gamma = nan"),
    ],
)
def test_what_are_no_weights_is_refused(tasks, message):
    with pytest.raises(ValueError, match=message):
        show_layer_weights(tasks, figure=False)


def test_names_of_layers():
    assert layer_names(1) == ["token"]
    assert layer_names(4) == ["token", "biLSTM 1", "biLSTM 2", "biLSTM 3"]
