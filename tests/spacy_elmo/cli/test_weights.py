import pytest
import spacy

from spacy_elmo.cli.main import main
from spacy_elmo.layer_weights import learnt_layer_weights
from tests.spacy_elmo.conftest import LAYERS, WIDTH
from tests.spacy_elmo.toy_tasks import add_consumer, initialize, make_examples, source_block, tok2vec_block, train


@pytest.fixture
def trained(make_nlp, tmp_path):
    nlp = make_nlp()
    add_consumer(nlp, "tagger", tok2vec_block(source_block("listener", "", width=WIDTH, layers=LAYERS), output=True))
    examples = make_examples(nlp)
    optimizer = initialize(nlp, examples)
    optimizer.learn_rate = 0.05
    train(nlp, examples, optimizer, steps=5)
    nlp.to_disk(tmp_path / "trained")
    return tmp_path / "trained"


def test_it_shows_every_learnt_weight(trained, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["weights", str(trained)]) == 0
    printed = capsys.readouterr().out
    tasks = learnt_layer_weights(spacy.load(trained))
    assert list(tasks) == ["elmo: doc._.elmo", "tagger: input", "tagger: output"]
    assert tasks["tagger: input"][0] != pytest.approx([1 / 3] * 3, abs=1e-3)
    for task, (weights, gamma) in tasks.items():
        (line,) = [line for line in printed.splitlines() if task in line]
        assert all(f"{number:.3f}" in line for number in [*weights, gamma])


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_it_draws_a_figure(trained, tmp_path, capsys, ending):
    pytest.importorskip("matplotlib", reason='needs matplotlib: pip install "spacy-elmo[plots]"')
    out = tmp_path / f"weights.{ending}"
    assert main(["weights", str(trained), "--out", str(out)]) == 0
    assert out.stat().st_size > 1000
    assert f"written to {out}" in capsys.readouterr().out


def test_a_pipeline_without_elmo_is_named(tmp_path, capsys):
    spacy.blank("en").to_disk(tmp_path)
    assert main(["weights", str(tmp_path)]) == 2
    assert "without a scalar mix" in capsys.readouterr().err


def test_a_figure_of_an_unknown_kind_is_named(trained, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason='needs matplotlib: pip install "spacy-elmo[plots]"')
    assert main(["weights", str(trained), "--out", str(tmp_path / "weights.xyz")]) == 2
    assert "xyz" in capsys.readouterr().err
