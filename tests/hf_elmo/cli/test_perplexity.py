import json

import pytest

from hf_elmo import ElmoForPreTraining, ElmoTokenizer
from hf_elmo.cli.main import main
from hf_elmo.perplexity import perplexity
from hf_elmo.pretraining.corpus_with_vocabulary import with_vocabulary
from hf_elmo.pretraining.streams import HeldoutStreams
from hf_elmo.pretraining.trainer import model_inputs
from hf_elmo.pretraining.warm_state import store_warm_state
from tests.hf_elmo.models import random_lm, random_model
from tests.hf_elmo.pretraining.prepared_corpora import HELDOUT, SENTENCES, prepare_sentences

VOCABULARY = ["<S>", "</S>", "<UNK>", "v1", "absent", "h2"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A model, the same with a warm state, one without a head; a prepared corpus, and one without held-out text."""
    folder = tmp_path_factory.mktemp("perplexity")
    (folder / "none").mkdir()
    prepared = prepare_sentences(folder, SENTENCES, {"h": HELDOUT, "more": SENTENCES[:4]})
    prepare_sentences(folder / "none", SENTENCES)
    model = random_lm(vocab_size=len(VOCABULARY) + 1)
    model.save_pretrained(folder / "model")
    store_warm_state(model, HeldoutStreams(prepared, "train", batch_size=1, unroll_steps=5))
    model.save_pretrained(folder / "warm")
    random_model().save_pretrained(folder / "body")
    for name in ("model", "warm", "body"):
        ElmoTokenizer(vocab=VOCABULARY).save_pretrained(folder / name)
    return folder, prepared


def run(folder, model, *flags, corpus="prepared") -> int:
    return main(["perplexity", str(folder / model), str(folder / corpus), "--device", "cpu", *flags])


def test_table_and_file(folders, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    folder, _ = folders
    assert run(folder, "warm", "--streams", "2", "--json", str(tmp_path / "new" / "figures.json")) == 0
    figures = json.loads((tmp_path / "new" / "figures.json").read_text())
    assert list(figures["texts"]) == ["h", "more"]
    text = figures["texts"]["h"]
    words = [word for sentence in HELDOUT for word in sentence]
    assert (text["words"], text["sentences"]) == (len(words), len(HELDOUT))
    assert text["oov_rate"] == pytest.approx(sum(word not in VOCABULARY for word in words) / len(words), abs=1e-6)
    assert list(text["states"]) == ["zero", "warm", "carry"]
    shown = capsys.readouterr().out
    for name, text in figures["texts"].items():
        assert f"│ {name} " in shown
        for state, figure in text["states"].items():
            [line] = [line for line in shown.splitlines() if f"{figure['perplexity']:.2f}" in line and state in line]
            assert f"{figure['forward_perplexity']:.2f}" in line
            assert f"{figure['backward_perplexity']:.2f}" in line
    for convention in ("full softmax over 6 words", "</S>", "<UNK>", "2 parallel streams"):
        assert convention in shown
    assert " ".join(figures["conventions"].split()) in " ".join(shown.split())


def test_carry_is_what_pretraining_computes(folders, tmp_path):
    folder, prepared = folders
    flags = ["--states", "carry", "--texts", "h", "--streams", "3", "--json", str(tmp_path / "figures.json")]
    assert run(folder, "model", *flags) == 0
    [(name, text)] = json.loads((tmp_path / "figures.json").read_text())["texts"].items()
    model = ElmoForPreTraining.from_pretrained(folder / "model")
    streams = HeldoutStreams(with_vocabulary(prepared, VOCABULARY), "heldout-h", batch_size=3, unroll_steps=20)
    expected = perplexity(model, map(model_inputs, streams))
    assert name == "h"
    assert text["states"] == {
        "carry": {
            "perplexity": pytest.approx(expected.average, rel=1e-6),
            "forward_perplexity": pytest.approx(expected.forward, rel=1e-6),
            "backward_perplexity": pytest.approx(expected.backward, rel=1e-6),
            "predictions_per_direction": expected.predictions,
        }
    }


def test_without_a_warm_state_there_are_two(folders, tmp_path, capsys):
    folder, _ = folders
    flags = ["--words", "5", "--json", str(tmp_path / "figures.json")]
    assert run(folder, "model", *flags) == 0
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert {tuple(text["states"]) for text in figures["texts"].values()} == {("zero", "carry")}
    assert all(5 <= text["words"] < 10 for text in figures["texts"].values())
    assert "warm" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "flags", "message"),
    [
        ("model", ["--states", "zero,warm"], 'got "warm" for a model whose initial state is'),
        ("model", ["--states", "cold"], "got 'cold'; expected some of zero, warm, carry"),
        ("model", ["--texts", "h,x"], "--texts: got 'x'; expected some of h, more"),
        ("model", ["--words", "0"], "--words: got 0"),
        ("model", ["--streams", "0"], "--streams: got 0"),
        ("model", ["--device", "toaster"], "--device: got 'toaster'"),
        ("body", [], "got a model without a softmax"),
        ("absent", [], "absent"),
    ],
)
def test_refused(folders, capsys, model, flags, message):
    folder, _ = folders
    capsys.readouterr()
    assert run(folder, model, *flags) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("hf-elmo perplexity: ")
    assert message in error


def test_a_corpus_that_holds_nothing_out(folders, capsys):
    folder, _ = folders
    for corpus, message in (("none/prepared", "without held-out text"), ("nowhere", "no such folder")):
        assert run(folder, "model", corpus=corpus) == 2
        assert message in capsys.readouterr().err
