import json
import statistics
from pathlib import Path

import pytest
from experiments.report import PAGE, fill_in
from experiments.table_contents import all_tables
from experiments.tables import Mean, Results, Table, error_reduction, mean_of
from hypothesis import given
from hypothesis import strategies as st


def _result(name: str, group: str, metrics: dict[str, float], **settings: object) -> dict[str, object]:
    return {
        "name": name,
        "group": group,
        "metrics": metrics,
        "settings": settings,
        "layer_weights": {},
        "details": {},
        "steps": 3,
        "words": 600,
        "minutes": 2.0,
        "cpu_minutes": 1.5,
        "device": "cpu",
        "training_minutes": 0.5,
        "threads": 1,
    }


@given(st.lists(st.floats(0, 100), min_size=2, max_size=5))
def test_mean_and_deviation(values: list[float]) -> None:
    mean = mean_of(values)
    assert mean is not None
    assert mean.value == pytest.approx(statistics.mean(values))
    assert mean.deviation == pytest.approx(statistics.stdev(values), abs=1e-9)


@pytest.mark.parametrize(
    ("without", "with_elmo", "expected"),
    [
        (90.15, 92.22, "21.0 %"),
        (81.1, 85.8, "24.9 %"),
        (51.4, 54.7, "6.8 %"),
        (50.0, 40.0, "-20.0 %"),
        (1.0, None, None),
    ],
)
def test_error_reduction_is_that_of_the_paper(without: float, with_elmo: float | None, expected: str | None) -> None:
    assert error_reduction(without, with_elmo) == expected
    assert error_reduction(Mean(without, None, 1), with_elmo) == expected


def test_seeds_are_averaged_and_variants_are_not() -> None:
    results = Results(
        [
            _result("a", "ner", {"f1": 80.0}, task="t", elmo="none", seed=0),
            _result("b", "ner", {"f1": 82.0}, task="t", elmo="none", seed=1),
            _result("c", "ner", {"f1": 10.0}, task="t", elmo="none", seed=0, variant="v"),
            _result("d", "ner", {"f1": 20.0}, task="t", elmo="input", seed=0),
        ]
    )
    assert results.mean("f1", "ner", task="t", elmo="none") == Mean(81.0, pytest.approx(2**0.5), 2)
    assert results.mean("f1", "ner", task="t", variant="v") == Mean(10.0, None, 1)
    assert results.mean("f1", "ner", task="other") is None
    assert results.mean("accuracy", "ner", task="t") is None


def test_only_seeds_that_all_have_are_compared() -> None:
    """Otherwise a row of a lucky seed would stand beside the mean of all."""
    told = {"task": "conll03", "network": "spacy", "percent": 10}
    results = Results(
        [
            *(_result("a", "ner", {"f1": 70.0 + seed}, elmo="none", seed=seed, **told) for seed in range(3)),
            *(_result("b", "ner", {"f1": 80.0 + seed}, elmo="input", seed=seed, **told) for seed in range(3)),
            _result("c", "mixing", {"f1": 81.0}, elmo="input", seed=2, variant="nonorm", **told),
        ]
    )
    (options,) = [table for table in all_tables(results) if table.name == "options"]
    assert [row[1] for row in options.rows] == [Mean(72.0, None, 1), Mean(82.0, None, 1), Mean(81.0, None, 1)]
    assert results.with_common_seeds(("ner", {"elmo": "none"})).mean("f1", "ner", elmo="input") == Mean(81.0, 1.0, 3)
    assert results.with_common_seeds(("nowhere", {})).results == []


def test_options_of_the_heads_stand_beside_their_networks() -> None:
    tagger = {"task": "conll03", "network": "crf", "percent": 10, "seed": 0}
    results = Results(
        [
            _result("a", "ner", {"f1": 70.0}, elmo="none", **tagger),
            _result("b", "ner", {"f1": 80.0}, elmo="input", **tagger),
            _result("c", "mixing", {"f1": 81.0}, elmo="input", variant="nonorm", **tagger),
            _result("d", "mixing", {"f1": 82.0}, elmo="input", variant="l2-0.001", **tagger),
            _result("e", "sentences", {"accuracy": 40.0}, task="sst5", elmo="input", seed=0),
        ]
    )
    (table,) = [table for table in all_tables(results) if table.name == "head-options"]
    assert table.columns[1:] == [
        "NER conll03, 10 % (F1)",
        "NER conll03, 100 % (F1)",
        "NER wnut17, 100 % (F1)",
        "SST-5 (accuracy)",
    ]
    one = {value: Mean(value, None, 1) for value in (70.0, 80.0, 81.0, 82.0, 40.0)}
    assert [row[1:] for row in table.rows] == [
        [one[70.0], None, None, None],
        [one[80.0], None, None, one[40.0]],
        [one[81.0], None, None, None],
        [one[82.0], None, None, None],
    ]


def test_markdown() -> None:
    table = Table("t", ["task", "score"], [["a|b", Mean(81.0, 1.414, 2)], ["c", None], ["d", 1234.0]], "A note.")
    assert table.markdown() == (
        "| task | score |\n| --- | ---: |\n| a\\|b | 81.00 ± 1.41 (2) |\n| c | – |\n| d | 1,234 |\n\nA note."
    )
    assert Table("t", ["task"], []).markdown() == "*Not measured yet.*"
    assert json.dumps(table.json())


def test_page_keeps_its_prose_and_gets_new_tables() -> None:
    text = "Before.\n\n<!-- table: t -->\nold\n<!-- end of table -->\n\nAfter.\n"
    tables = [Table("t", ["task", "score"], [["a", 1.0]])]
    filled = fill_in(text, tables)
    assert filled.startswith("Before.\n\n<!-- table: t -->\n\n| task |")
    assert filled.endswith("| a | 1.00 |\n\n<!-- end of table -->\n\nAfter.\n")
    assert fill_in(filled, tables) == filled
    with pytest.raises(ValueError, match="got the table 't'; expected one of other"):
        fill_in(text, [tables[0]._replace(name="other")])
    with pytest.raises(ValueError, match="got 2 marks"):
        fill_in(text + "<!-- table: t -->\n", tables)


def test_every_table_can_be_empty() -> None:
    names = [table.name for table in all_tables(Results([]))]
    assert len(names) == len(set(names))
    assert all(table.markdown() for table in all_tables(Results([])))


def test_gains_pairs_rows_of_one_setting() -> None:
    told = {"task": "conll03", "network": "spacy", "percent": 10}
    results = Results(
        [
            _result("a", "ner", {"f1": 80.0}, elmo="none", seed=0, **told),
            _result("b", "ner", {"f1": 85.0}, elmo="input", seed=0, **told),
            _result("c", "ner", {"f1": 99.0}, elmo="input", seed=0, **{**told, "percent": 1}),
        ]
    )
    rows = all_tables(results)[0].rows
    assert [row[1:] for row in rows] == [[Mean(80.0, None, 1), Mean(85.0, None, 1), "25.0 %"]]


def test_the_page_has_a_place_for_every_table() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "evidence" / PAGE).read_text(encoding="utf-8")
    tables = all_tables(Results([]))
    filled = fill_in(page, tables)
    assert all(f"<!-- table: {table.name} -->" in filled for table in tables)
    assert filled.count("*Not measured yet.*") == len(tables)
