"""Entities of a pipeline trained on the toy corpus, in every precision."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import spacy
import torch
from spacy.language import Language
from spacy.tokens import DocBin
from spacy.training import Corpus
from spacy.util import fix_random_seed

from hf_elmo.prepacked_linear import check_precision
from tests.benchmarks import ner_precision
from tests.spacy_elmo.toy_tasks import add_consumer, initialize, make_examples, mixed_block, source_block, train


def _refusal(precision: str) -> str | None:
    """Why this machine does not compute in it."""
    try:
        check_precision(precision, torch.device("cpu"))
    except ValueError as refused:
        return str(refused)
    return None


@pytest.fixture(params=["listener", "standalone"])
def trained(
    request: pytest.FixtureRequest, make_nlp: Callable[..., Language], tiny_folder: Path, tmp_path: Path
) -> Path:
    """A folder with a pipeline, whose biLM is the component's or the tagger's own, and dev.spacy."""
    fix_random_seed(0)  # now and then a pipeline learns nothing in so few steps
    nlp = make_nlp() if request.param == "listener" else spacy.blank("en")
    add_consumer(nlp, "ner", mixed_block(source_block(request.param, str(tiny_folder), width=12, layers=3)))
    examples = make_examples(nlp, count=40)
    optimizer = initialize(nlp, examples)
    optimizer.learn_rate = 0.02
    train(nlp, examples, optimizer, steps=30)
    nlp.to_disk(tmp_path / "pipeline")
    DocBin(docs=[example.reference for example in make_examples(nlp, seed=1)]).to_disk(tmp_path / "dev.spacy")
    return tmp_path


def test_every_precision_is_scored(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = trained / "figures.json"
    ner_precision.main([str(trained / "pipeline"), str(trained / "dev.spacy"), "--json", str(out)])
    figures = json.loads(out.read_text())
    nlp = spacy.load(trained / "pipeline")
    expected = nlp.evaluate(list(Corpus(trained / "dev.spacy")(nlp)))
    assert figures["fp32"]["ents_f"] == expected["ents_f"] > 0.3
    assert figures["fp32"]["other_docs"] == 0
    for precision in ("bf16", "int8"):
        if refusal := _refusal(precision):
            assert figures[precision] == {"refused": refusal}
        else:
            assert figures[precision]["ents_f"] > 0.2
            assert 0 <= figures[precision]["other_docs"] <= 1
    assert "F1" in capsys.readouterr().out


def test_a_precision_reaches_the_biLM(trained: Path) -> None:  # noqa: N802
    nlp = spacy.load(trained / "pipeline")
    (bilm,) = ner_precision.bilms(nlp)
    before = bilm.embedder
    ner_precision.set_precision(nlp, "fp32")
    assert bilm.embedder.precision == before.precision == "fp32"
    if refusal := _refusal("bf16"):
        pytest.skip(refusal)
    ner_precision.set_precision(nlp, "bf16")
    assert bilm.embedder.precision == "bf16"


def test_what_cannot_be_measured_is_refused(trained: Path, tmp_path: Path) -> None:
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(SystemExit, match="expected one that reads ELMo"):
        ner_precision.main([str(tmp_path / "blank"), str(trained / "dev.spacy")])
    DocBin(docs=[spacy.blank("en")("No entity here.")]).to_disk(tmp_path / "none.spacy")
    with pytest.raises(SystemExit, match="got 1 without an entity"):
        ner_precision.main([str(trained / "pipeline"), str(tmp_path / "none.spacy")])
