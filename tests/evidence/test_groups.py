"""Every kind of row once, on a few sentences."""

import json
from pathlib import Path

import numpy as np
import pytest
from experiments.budget import BUDGETS
from experiments.ner import entity_scores
from experiments.probe import probe_accuracy
from experiments.programme import all_rows
from experiments.readers.columns import to_iob2
from experiments.report import write_report
from experiments.resources import Resources
from experiments.rows import Result, measure
from experiments.shares import share
from experiments.spacy_training import spacy_config
from hypothesis import given
from hypothesis import strategies as st
from spacy.scorer import get_ner_prf
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab

KINDS = (
    "ner-conll03-10-spacy-none-seed0",
    "ner-conll03-10-spacy-both-seed0",
    "ner-wnut17-100-crf-input-seed0",
    "pos-gum-probe",
    "pos-ewt-100-spacy-input-seed0",
    "senses-wsd",
    "sentences-sst5-both-seed0",
    "sentences-nli-none-seed0",
    "qa-squad-input-seed0",
    "mixing-conll03-10-crf-input-token-noglove-seed0",
    "sentences-nli-input-nodropout-seed0",
    "qa-squad-input-nodropout-seed0",
    "mixing-sst5-input-nonorm-seed0",
    "mixing-conll03-10-spacy-input-layers01-seed0",
    "cost-elmo",
)


def test_shares_are_those_of_the_seed() -> None:
    items = list(range(200))
    assert share(items, percent=100, seed=3) == items
    tenth = share(items, percent=10, seed=3)
    assert len(set(tenth)) == 20
    assert tenth == share(items, percent=10, seed=3)
    assert tenth != share(items, percent=10, seed=4)
    with pytest.raises(ValueError, match="percent: got 0"):
        share(items, percent=0, seed=0)


def test_entities_are_scored_whole() -> None:
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-ORG"]]
    predicted = [["B-PER", "O", "O", "B-LOC"], ["B-ORG", "B-ORG"]]
    # 4 found, 3 wanted, 2 right
    assert entity_scores(gold, predicted) == {
        "f1": pytest.approx(100 * 4 / 7),
        "precision": 50.0,
        "recall": pytest.approx(200 / 3),
    }
    assert entity_scores(gold, gold)["f1"] == 100.0
    assert entity_scores(gold, [["O"] * 4, ["O"] * 2])["f1"] == 0.0


_TAGS = st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"]), min_size=4, max_size=4).map(to_iob2)


@given(st.lists(st.tuples(_TAGS, _TAGS), min_size=1, max_size=4))
def test_entities_are_scored_as_by_spacy(pairs: list[tuple[list[str], list[str]]]) -> None:
    vocab = Vocab()
    examples = []
    for gold, predicted in pairs:
        docs = [Doc(vocab, words=["w"] * 4, ents=tags) for tags in (predicted, gold)]
        examples.append(Example(*docs))
    expected = get_ner_prf(examples)
    scores = entity_scores([gold for gold, _ in pairs], [predicted for _, predicted in pairs])
    for name, key in (("f1", "ents_f"), ("precision", "ents_p"), ("recall", "ents_r")):
        assert scores[name] == pytest.approx(100 * (expected[key] or 0.0))


def test_probe_finds_what_is_linear() -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(400, 5)).astype(np.float32) * [1, 100, 1, 1, 1] + 30
    labels = (x[:, 0] > 30).astype(np.int64) + 2 * (x[:, 1] > 30)
    # A part of speech that training has not seen counts as an error.
    labels[399] = -1
    accuracy = probe_accuracy(x[:300], labels[:300], x[300:], labels[300:])
    assert 90 < accuracy <= 99


def test_spacy_rows_differ_in_elmo_only(resources: Resources) -> None:
    without, with_elmo = (spacy_config("ner", resources, elmo=elmo, seed=0, epochs=3) for elmo in ("none", "input"))
    plain, mixed = (config["components"]["ner"]["model"]["tok2vec"] for config in (without, with_elmo))
    assert plain["embed"] == mixed["embed"]
    assert plain["encode"] == mixed["encode"]
    assert without["training"] == with_elmo["training"]
    assert without["nlp"]["pipeline"] == ["ner"]
    assert with_elmo["nlp"]["pipeline"] == ["elmo", "ner"]
    assert with_elmo["components"]["elmo"]["frozen"]


@pytest.mark.slow
def test_every_kind_of_row(resources: Resources, tmp_path: Path) -> None:
    rows = {row.name: row for row in all_rows(BUDGETS["tiny"])}
    results: list[Result] = []
    for name in KINDS:
        result = json.loads(json.dumps(measure(rows[name], resources, command="c")))
        scores = [value for key, value in result["metrics"].items() if key in ("f1", "accuracy", "layer0")]
        assert all(0 <= value <= 100 for value in scores), name
        trained = result["settings"].get("network") not in (None, "probe", "elmo")
        assert (result["steps"] > 0) == trained, name
        assert bool(result["layer_weights"]) == (trained and result["settings"]["elmo"] != "none"), name
        results.append(result)
    write_report(tmp_path, results, rows=len(rows))
    assert {path.name for path in (tmp_path / "figures").iterdir()} >= {"layers.svg", "layer-weights.svg"}
    wsd = next(result for result in results if result["name"] == "senses-wsd")["metrics"]
    # "play" is nearest to a drama or to a pun, "dry" is seen as "dull" only, "belong to" is not seen.
    assert wsd["instances"] == 15
    assert wsd["fallback"] == pytest.approx(100 / 3)
    assert wsd["first_sense_all"] == 100.0
    assert wsd["most_frequent_all"] == pytest.approx(200 / 3)


@pytest.mark.slow
def test_the_biLM_is_adapted_once(resources: Resources) -> None:  # noqa: N802
    rows = {row.name: row for row in all_rows(BUDGETS["tiny"])}
    result = measure(rows["adaptation-wnut17-10-spacy-input-seed0"], resources, command="c")
    assert result["metrics"]["heldout_perplexity"] > 1
    assert result["metrics"]["heldout_perplexity_before"] > 1
    (folder,) = [path for path in (resources.cache / "adapted").iterdir() if path.is_dir()]
    changed = (folder / "model.safetensors").stat().st_mtime_ns
    assert resources.with_model(str(folder)).model_hash != resources.model_hash
    measure(rows["adaptation-wnut17-100-spacy-input-seed0"], resources, command="c")
    assert (folder / "model.safetensors").stat().st_mtime_ns == changed
    measure(rows["adaptation-wnut17-10-spacy-input-once-seed0"], resources, command="c")
    assert sum(path.is_dir() for path in (resources.cache / "adapted").iterdir()) == 2
