import json
import struct
import sys

import pytest

from hf_elmo.cli.main import main
from hf_elmo.pretraining.learning_curve import (
    COLOURS,
    LearningCurve,
    curve_of,
    draw_curves,
    learning_curve_figure,
    log_file,
    read_curve,
)

LOG = [
    {"sampled_softmax_loss": 6.0, "loss": 6.0, "words": 6400, "step": 10},
    {"eval_a_perplexity": 300.0, "eval_a_forward_perplexity": 290.0, "eval_a_backward_perplexity": 310.0, "step": 10},
    {"sampled_softmax_loss": 5.0, "loss": 5.0, "words": 12800, "step": 20},
    {"eval_a_perplexity": 200.0, "eval_going_forward_perplexity": 210.0, "step": 20},
    {"train_runtime": 9.0, "train_loss": 5.5, "step": 20},
    {"eval_a_perplexity": 250.0, "step": 20},
]


def lines_of(figure) -> list[dict[str, tuple[list[float], list[float]]]]:
    """Per panel what is drawn, by its label."""
    return [
        {
            line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
            for line in axis.get_lines()
            if not line.get_label().startswith("_")
        }
        for axis in figure.axes
    ]


def test_what_a_log_says():
    curve = curve_of(LOG, "run")
    assert curve == LearningCurve(
        "run",
        "sampled",
        ((10, 6.0), (20, 5.0)),
        # Without the last, which is of the whole texts; a text may be called "going_forward".
        {"a": ((10, 300.0), (20, 200.0)), "going_forward": ((20, 210.0),)},
        640.0,
    )
    only_at_the_end = curve_of([LOG[0], *LOG[-2:]], "run")
    assert only_at_the_end.perplexity == {"a": ((20, 250.0),)}
    assert curve_of([{"loss": 3.0, "step": 1}], "run").softmax == "full"
    with pytest.raises(ValueError, match="run: got a log without a loss or a perplexity"):
        curve_of(LOG[4:5], "run")


class TestFigure:
    pytest.importorskip("matplotlib", reason='needs matplotlib: pip install "spacy-elmo[plots]"')

    def test_one_run(self):
        figure = learning_curve_figure([curve_of(LOG, "run")])
        losses, perplexities = lines_of(figure)
        assert losses == {"training": ([6400, 12800], [6.0, 5.0])}
        assert perplexities == {"a": ([6400, 12800], [300.0, 200.0]), "going_forward": ([12800], [210.0])}
        left, right = figure.axes
        assert left.get_ylabel() == "nats per word (sampled softmax)"
        assert right.get_ylabel() == "perplexity (full softmax, log scale)"
        assert right.get_yscale() == "log"
        assert [axis.get_xlabel() for axis in figure.axes] == ["words read in each direction"] * 2
        assert all(axis.get_legend() is not None for axis in figure.axes)
        (updates,) = left.child_axes
        assert updates.get_xlabel() == "updates"
        figure.draw_without_rendering()
        assert updates.get_xlim()[1] == pytest.approx(left.get_xlim()[1] / 640)

    def test_several_runs_have_a_colour_each_and_texts_a_line(self):
        other = [{**entry, "step": 2 * entry["step"]} for entry in LOG]
        figure = learning_curve_figure([curve_of(LOG, "one"), curve_of(other, "other")])
        losses, perplexities = figure.axes
        assert [line.get_label() for line in losses.get_lines()] == ["one", "other"]
        assert [line.get_color() for line in losses.get_lines()] == list(COLOURS[:2])
        drawn = [line for line in perplexities.get_lines() if len(line.get_xdata())]
        assert [(line.get_color(), line.get_linestyle()) for line in drawn] == [
            (colour, style) for colour in COLOURS[:2] for style in ("-", "--")
        ]
        legend = [text.get_text() for text in perplexities.get_legend().get_texts()]
        assert legend == ["one", "other", "a", "going_forward"]
        assert losses.child_axes == []  # an update is not as many words in both

    def test_logs_without_words_are_drawn_over_updates(self):
        old = [{name: value for name, value in entry.items() if name != "words"} for entry in LOG]
        figure = learning_curve_figure([curve_of(LOG, "new"), curve_of(old, "old")])
        assert {axis.get_xlabel() for axis in figure.axes} == {"updates"}
        assert lines_of(figure)[0]["new"][0] == [10, 20]

    def test_many_losses_are_averaged_and_the_first_peak_is_cut(self):
        log = [{"loss": 100.0 if step == 1 else 3.0 + step % 2, "step": step} for step in range(1, 201)]
        axis = learning_curve_figure([curve_of(log, "run")]).axes[0]
        raw, mean = axis.get_lines()
        assert list(raw.get_ydata()) == [entry["loss"] for entry in log]
        assert mean.get_label() == "training, mean of 8 logged values"
        assert len(mean.get_ydata()) == 200
        assert mean.get_ydata()[100] == pytest.approx(sum(entry["loss"] for entry in log[96:105]) / 9)
        assert axis.get_ylim()[1] < 5

    def test_only_what_is_there(self):
        assert [axis.get_title() for axis in learning_curve_figure([curve_of(LOG[1:2], "x")]).axes] == ["Held-out text"]
        assert [axis.get_title() for axis in learning_curve_figure([curve_of(LOG[:1], "x")]).axes] == ["Training loss"]

    def test_the_file(self, tmp_path):
        draw_curves([curve_of(LOG, "run")], tmp_path / "new" / "curve.png")
        content = (tmp_path / "new" / "curve.png").read_bytes()
        assert content[:8] == b"\x89PNG\r\n\x1a\n"
        width, height = struct.unpack(">II", content[16:24])
        assert width > 1200
        assert height > 500
        draw_curves([curve_of(LOG, "run")], tmp_path / "curve.svg")
        assert "<svg" in (tmp_path / "curve.svg").read_text(encoding="utf-8")
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["curve.png", "curve.svg", "new"]
        with pytest.raises(ValueError, match=r"got the ending '\.jpg'; expected one of \.png, \.svg, \.pdf"):
            draw_curves([curve_of(LOG, "run")], tmp_path / "curve.jpg")
        with pytest.raises(ValueError, match="got no curve"):
            draw_curves([], tmp_path / "curve.png")


class TestRuns:
    @pytest.fixture
    def run_dir(self, tmp_path):
        folder = tmp_path / "my-run"
        for step in (9, 10):
            checkpoint = folder / f"checkpoint-{step}"
            checkpoint.mkdir(parents=True)
            state = {"log_history": [{"loss": float(step), "step": step}]}
            (checkpoint / "trainer_state.json").write_text(json.dumps(state))
        return folder

    def test_a_run_that_is_still_training_is_read_from_its_last_checkpoint(self, run_dir):
        assert log_file(run_dir) == run_dir / "checkpoint-10" / "trainer_state.json"
        assert read_curve(run_dir) == LearningCurve("my-run", "full", ((10, 10.0),), {}, None)
        assert read_curve(run_dir / "checkpoint-9", "nine").loss == ((9, 9.0),)

    def test_a_finished_run(self, run_dir):
        (run_dir / "training_log.json").write_text(json.dumps(LOG))
        assert read_curve(run_dir).name == "my-run"
        assert read_curve(run_dir / "training_log.json") == read_curve(run_dir)

    def test_the_command(self, run_dir, tmp_path, capsys):
        pytest.importorskip("matplotlib", reason='needs matplotlib: pip install "spacy-elmo[plots]"')
        out = tmp_path / "out.svg"
        assert main(["curve", str(run_dir), f"low rate={run_dir / 'checkpoint-9'}", "--out", str(out)]) == 0
        assert f"written to {out}" in capsys.readouterr().out
        assert out.is_file()

    def test_what_is_no_run(self, run_dir, tmp_path, capsys):
        (tmp_path / "broken.json").write_text("{")
        (tmp_path / "other.json").write_text('{"a": 1}')
        for run, message in (
            (tmp_path, "holds no training_log.json and no checkpoint"),
            (tmp_path / "broken.json", "no JSON"),
            (tmp_path / "other.json", "without a list of log entries"),
        ):
            assert main(["curve", str(run), "--out", str(tmp_path / "x.png")]) == 2
            error = capsys.readouterr().err
            assert message in error
            assert error.count("\n") == 1

    def test_without_matplotlib_it_says_how_to_get_it(self, run_dir, tmp_path, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        assert main(["curve", str(run_dir), "--out", str(tmp_path / "x.png")]) == 2
        assert 'pip install "spacy-elmo[plots]"' in capsys.readouterr().err
        assert not (tmp_path / "x.png").exists()
