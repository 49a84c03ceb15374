import json
from pathlib import Path

import pytest
from experiments.budget import BUDGETS
from experiments.programme import all_rows, choose
from experiments.resources import Resources
from experiments.rows import Measurement, Row, RowFiles, Settings, measure


def _row(**changes: object) -> Row:
    def run(resources: Resources, settings: Settings) -> Measurement:
        return Measurement({"f1": float(settings["seed"])}, steps=2, words=10)

    told: dict[str, object] = {
        "name": "ner-a-seed1",
        "group": "ner",
        "settings": {"seed": 1},
        "measure": run,
        "data": ("tasks/wic",),
        "minutes": 1.0,
    }
    return Row(**{**told, **changes})  # type: ignore[arg-type]


def test_a_row_is_done_for_its_settings_data_and_weights(resources: Resources, tmp_path: Path) -> None:
    files = RowFiles(tmp_path / "rows")
    row = _row()
    assert not files.is_done(row, resources)
    files.write(row, measure(row, resources, command="c"))
    assert files.is_done(row, resources)
    assert not files.is_done(_row(settings={"seed": 1, "words": 5}), resources)
    assert not files.is_done(_row(data=("tasks/sst5",)), resources)
    shipped = Resources(resources.data, None, resources.cache, resources.wordnet)
    assert not files.is_done(row, shipped)
    without = _row(reads_model=False)
    files.write(without, measure(without, resources, command="c"))
    assert files.is_done(without, shipped), "no biLM takes part in it"
    assert [path.name for path in (tmp_path / "rows").iterdir()] == ["ner-a-seed1.json"]


def test_what_a_row_holds(resources: Resources, tmp_path: Path) -> None:
    files = RowFiles(tmp_path)
    files.write(_row(), measure(_row(), resources, command="python x"))
    result = json.loads((tmp_path / "ner-a-seed1.json").read_text())
    assert result["command"] == "python x"
    assert result["settings"] == {"seed": 1}
    assert result["model"]["weights"] == resources.model_hash
    assert set(result["data"]) == {"tasks/wic"}
    assert (result["steps"], result["words"], result["metrics"]) == (2, 10, {"f1": 1.0})
    assert {"python", "torch", "spacy"} <= result["versions"].keys()
    assert str(resources.data) not in json.dumps(result), "no path of this machine"


@pytest.mark.parametrize("content", ["", "{", '{"key": "other"}', "[]\n"])
def test_a_damaged_row_is_measured_again(resources: Resources, tmp_path: Path, content: str) -> None:
    (tmp_path / "ner-a-seed1.json").write_text(content)
    assert not RowFiles(tmp_path).is_done(_row(), resources)


def test_names_are_chosen_by_beginning_and_by_glob() -> None:
    rows = all_rows(BUDGETS["full"])
    names = [row.name for row in rows]
    assert len(set(names)) == len(names)
    assert [row.name for row in choose(rows, ["pos-ewt-probe"])] == ["pos-ewt-probe"]
    assert all(row.name.startswith("ner-conll03-") for row in choose(rows, ["ner-conll03"]))
    assert len(choose(rows, ["ner-conll03-1"])) < len(choose(rows, ["ner-conll03-1*"]))
    assert {row.group for row in choose(rows, ["pos", "senses-w?c"])} == {"pos", "senses"}
    assert choose(rows, []) == rows
    with pytest.raises(ValueError, match=r"--only: got 'nerr', which is no row; .*ner, pos"):
        choose(rows, ["ner", "nerr"])


def test_every_pair_differs_in_elmo_only() -> None:
    rows = {row.name: row for row in all_rows(BUDGETS["full"])}
    pairs = [(row, rows.get(name.replace("-none-", "-input-"))) for name, row in rows.items() if "-none-" in name]
    assert len(pairs) > 20
    for without, with_elmo in pairs:
        assert with_elmo is not None
        assert {**without.settings, "elmo": "input"} == dict(with_elmo.settings)
        assert not without.reads_model
        assert with_elmo.reads_model


def test_first_come_the_most_telling() -> None:
    names = [row.name for row in all_rows(BUDGETS["full"])]
    assert names[0] == "ner-conll03-10-spacy-none-seed0"
    assert all(name.startswith("cost-") for name in names[-3:])
