"""The benchmark of an epoch runs on the sample of the example project, and the cache is warm when it says so."""

import json
from pathlib import Path

import pytest

from tests.benchmarks.spacy_epoch import WITH, WITHOUT, main, read_docs
from tests.spacy_elmo.conftest import tiny_folder  # noqa: F401

CORPUS = Path(__file__).parents[2] / "examples" / "ner_conll" / "data" / "train.conll"


@pytest.mark.parametrize("cache", ["memory", "folder"])
def test_tiny(tiny_folder, tmp_path, capsys, cache):  # noqa: F811
    out = tmp_path / "figures.json"
    arguments = ["--sentences", "24", "--sentences-per-doc", "2", "--epochs", "3", "--model", str(tiny_folder)]
    assert main([str(CORPUS), *arguments, "--cache", cache, "--json", str(out)]) == 0
    figures = json.loads(out.read_text())
    epochs = figures["epochs"]
    words = sum(len(doc) for doc in read_docs(CORPUS, sentences_per_doc=2, sentences=24))
    for name in (WITHOUT, WITH):
        assert [epoch["words"] for epoch in epochs[name]] == [words] * 3
    assert [epoch["computed"] for epoch in epochs[WITHOUT]] == [0, 0, 0]
    first, *later = (epoch["computed"] for epoch in epochs[WITH])
    assert first > 0
    assert later == [0, 0]
    assert figures["ratio"] == pytest.approx(figures["median_seconds"][WITH] / figures["median_seconds"][WITHOUT])
    assert f"{figures['ratio']:.2f} ×" in capsys.readouterr().out


def test_docs_are_read_from_conlls_columns(tmp_path):
    text = (
        "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\n\n"
        "Peter NNP I-NP I-PER\nBlackburn NNP I-NP I-PER\n"
    )
    (tmp_path / "corpus.conll").write_text(text)
    docs = list(read_docs(tmp_path / "corpus.conll", sentences_per_doc=1, sentences=None))
    assert [[(ent.text, ent.label_) for ent in doc.ents] for doc in docs] == [
        [("EU", "ORG")],
        [("Peter Blackburn", "PER")],
    ]
    (both,) = read_docs(tmp_path / "corpus.conll", sentences_per_doc=5, sentences=None)
    assert len(both) == 4
    assert len(list(read_docs(tmp_path / "corpus.conll", sentences_per_doc=1, sentences=1))) == 1


def test_what_cannot_be_measured_is_named(tmp_path, capsys):
    (tmp_path / "corpus.conll").write_text("A DT O\nword NN O\n")
    with pytest.raises(ValueError, match=r"got no entities; expected a \.spacy file"):
        main([str(tmp_path / "corpus.conll")])
    with pytest.raises(SystemExit):
        main([str(tmp_path / "corpus.conll"), "--epochs", "1"])
    assert "expected 2 or more" in capsys.readouterr().err
