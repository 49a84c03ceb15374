"""Vectors in Parquet, one row a sentence, one row group a part."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hf_elmo.dump.parts import read_vectors

_INFO = b"hf_elmo"


def check_available() -> None:
    """Raises ImportError where pyarrow is missing."""
    _pyarrow()


def join(parts: Sequence[Path], target: Path, info: dict[str, Any]) -> None:
    """Write a file of all parts.

    Columns: `sentence` (its number), `words`, `shape` of the vectors, `vectors`: the numbers of that shape in one list.
    """
    pa, pq = _pyarrow()
    value = pa.float16() if info["settings"]["dtype"] == "float16" else pa.float32()
    schema = pa.schema(
        {
            "sentence": pa.int64(),
            "words": pa.list_(pa.string()),
            "shape": pa.list_(pa.int32()),
            "vectors": pa.list_(value),
        }
    ).with_metadata({_INFO: json.dumps(info).encode()})
    # Dictionaries and compression gain nothing on such numbers.
    with pq.ParquetWriter(target, schema, use_dictionary=False, compression="NONE") as writer:
        for part in parts:
            numbers, words, vectors = zip(*read_vectors(part), strict=True)
            writer.write_table(_table(pa, schema, numbers, words, vectors))


def read_info(path: Path) -> dict[str, Any] | None:
    """What was written as `info`, or None in another file."""
    pa, pq = _pyarrow()
    try:
        metadata = pq.read_schema(path).metadata or {}
        info: dict[str, Any] = json.loads(metadata[_INFO])
        return info
    except (OSError, KeyError, ValueError, pa.ArrowException):
        return None


def _table(pa: Any, schema: Any, numbers: Any, words: Any, vectors: Sequence[np.ndarray]) -> Any:
    ends = np.cumsum([0, *(vector.size for vector in vectors)])
    lists = pa.ListArray.from_arrays(
        pa.array(ends, pa.int32()), pa.array(np.concatenate([vector.reshape(-1) for vector in vectors]))
    )
    columns = [pa.array(numbers), pa.array(words, schema.field("words").type)]
    columns += [pa.array([vector.shape for vector in vectors], schema.field("shape").type), lists]
    return pa.Table.from_arrays(columns, schema=schema)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError('writing Parquet needs pyarrow: pip install "spacy-elmo[dump]"') from error
    return pa, pq
