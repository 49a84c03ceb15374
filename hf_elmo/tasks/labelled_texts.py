"""Texts, or pairs of texts, and their classes: from CSV, TSV and JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hf_elmo.tasks.numbered_lines import numbered_lines, suffix_of

FORMATS = ("csv", "tsv", "jsonl")


class LabelledText(NamedTuple):
    """A text, or its words, and its class.

    Attributes:
        text: as it is, or as a list of words.
        pair: the second text of a pair.
        label: its class.
    """

    text: str | list[str]
    pair: str | list[str] | None
    label: str


def read_labelled_texts(
    path: str | Path,
    *,
    text_column: str = "text",
    pair_column: str | None = None,
    label_column: str = "label",
    split_at_spaces: bool = False,
    file_format: str | None = None,
) -> list[LabelledText]:
    """All rows of a file: CSV or TSV (without quoting) with a line of column names, or JSON lines; plain or `.gz`.

    Args:
        path: the file.
        text_column, label_column: what the columns, or the keys of each line's object, are called.
        pair_column: the second text's, where pairs are classified.
        split_at_spaces: the texts are words with spaces between.
        file_format: `"csv"`, `"tsv"` or `"jsonl"`; by default what the file's name ends in.

    Raises:
        FileNotFoundError: no such file.
        ValueError: another format, a missing column, or a row, whose line is named, without a text or a class.
    """
    kind = suffix_of(path).removeprefix(".") if file_format is None else file_format
    if kind not in FORMATS:
        raise ValueError(f"{path}: got a file of the format {kind!r}; expected one of {', '.join(FORMATS)}.")
    wanted = [text_column, label_column, *([] if pair_column is None else [pair_column])]
    rows = _json_rows(Path(path)) if kind == "jsonl" else _separated_rows(Path(path), tabs=kind == "tsv")
    texts = []
    for number, row in rows:
        where = f"{path}: line {number}"
        for name in wanted:
            if row.get(name) is None:
                raise ValueError(
                    f"{where}: got no {name!r}; expected it beside {', '.join(map(repr, row)) or 'nothing'} (the "
                    "columns' names are flags)."
                )
        text, label = _text(row[text_column], text_column, where, split_at_spaces), row[label_column]
        if isinstance(label, dict | list | float) or label == "":
            raise ValueError(f"{where}: got {label!r} under {label_column!r}; expected the name or number of a class.")
        pair = None if pair_column is None else _text(row[pair_column], pair_column, where, split_at_spaces)
        texts.append(LabelledText(text, pair, str(label)))
    if not texts:
        raise ValueError(f"{path}: got no rows; expected at least one.")
    return texts


def _text(value: Any, name: str, where: str, split_at_spaces: bool) -> str | list[str]:
    if not isinstance(value, str):
        raise ValueError(f"{where}: got {value!r} under {name!r}; expected a text.")
    if not value.strip():
        raise ValueError(f"{where}: got an empty text under {name!r}; expected words.")
    return value.split() if split_at_spaces else value


def _json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}: line {number}: got something that is no JSON ({error}).") from error
        if not isinstance(row, dict):
            raise ValueError(f"{path}: line {number}: got {type(row).__name__}; expected an object with keys.")
        yield number, row


def _separated_rows(path: Path, *, tabs: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    lines = (line for _, line in numbered_lines(path))
    style: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tabs else {"strict": True}
    rows = csv.reader(lines, **style)
    header: list[str] = []
    begin = 1
    try:
        for row in rows:
            if not header:
                header = [name.strip() for name in row]
            elif row:
                if len(row) != len(header):
                    raise ValueError(
                        f"{path}: line {begin}: got {len(row)} columns; expected {len(header)}, as in the first line."
                    )
                yield begin, dict(zip(header, row, strict=True))
            begin = rows.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{path}: line {begin}: cannot be read ({error}); expected comma-separated values.") from error
