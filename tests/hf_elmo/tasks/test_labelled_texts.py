"""Texts and classes from CSV, TSV and JSON lines."""

import gzip
import json
from pathlib import Path

import pytest

from hf_elmo.tasks.labelled_texts import read_labelled_texts


def test_csv_with_a_text_over_two_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('label,text\npos,"good,\nreally ""good"""\n\nneg,bad\n', encoding="utf-8-sig")
    assert read_labelled_texts(path) == [('good,\nreally "good"', None, "pos"), ("bad", None, "neg")]


def test_tsv_in_which_quotes_are_quotes(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(b'sentence\tgold\n"half a quote\t0\n'))
    found = read_labelled_texts(path, text_column="sentence", label_column="gold", split_at_spaces=True)
    assert found == [(['"half', "a", "quote"], None, "0")]


def test_json_lines_of_pairs(tmp_path: Path) -> None:
    path = tmp_path / "nli.jsonl"
    rows = [
        {"premise": "A dog .", "hypothesis": "A cat .", "label": 2},
        {"premise": "x", "hypothesis": "y", "label": 0},
    ]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n", encoding="utf-8")
    found = read_labelled_texts(path, text_column="premise", pair_column="hypothesis")
    assert found == [("A dog .", "A cat .", "2"), ("x", "y", "0")]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "text,label\na,1\nb\n", "a.csv: line 3: got 1 columns; expected 2, as in the first line"),
        ("a.csv", "sentence,label\na,1\n", "a.csv: line 2: got no 'text'; expected it beside 'sentence', 'label'"),
        ("a.csv", 'text,label\n"a\n,1\n', "a.csv: line 2: cannot be read"),
        ("a.tsv", "text\tlabel\n \t1\n", "a.tsv: line 2: got an empty text under 'text'"),
        ("a.tsv", "text\tlabel\n", "a.tsv: got no rows"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": ', "a.jsonl: line 2: got something that is no JSON"),
        ("a.jsonl", "[1]\n", "a.jsonl: line 1: got list; expected an object"),
        ("a.jsonl", '{"text": 3, "label": 1}\n', "a.jsonl: line 1: got 3 under 'text'; expected a text"),
        ("a.jsonl", '{"text": "a", "label": 0.5}\n', "a.jsonl: line 1: got 0.5 under 'label'"),
        ("a.xml", "", "a.xml: got a file of the format 'xml'; expected one of csv, tsv, jsonl"),
    ],
)
def test_malformed_files(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_labelled_texts(tmp_path / name)
