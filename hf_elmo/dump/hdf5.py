"""Vectors in HDF5, under the keys of AllenNLP's `elmo` command and bilm-tf's `dump_bilm_embeddings`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hf_elmo.dump.parts import read_vectors

_INFO = "hf_elmo"
# An HDF5 string counts its bytes in 32 bits.
_LONGEST_STRING = (1 << 32) - 1


def check_available() -> None:
    """Raises ImportError where h5py is missing."""
    _h5py()


def join(parts: Sequence[Path], target: Path, info: dict[str, Any], *, with_sentences: bool) -> None:
    """Write a file of all parts: a dataset a sentence, `sentence_to_index`, and what is known of it as an attribute.

    Raises:
        ValueError: the sentences are too long for a string of HDF5.
    """
    sentence_to_index: dict[str, str] = {}
    with _h5py().File(target, "w") as file:
        for part in parts:
            for number, words, vectors in read_vectors(part):
                file.create_dataset(str(number), data=vectors)
                if with_sentences:
                    sentence_to_index[" ".join(words)] = str(number)  # of a repeated one the last, as in the original
        if with_sentences:
            text = json.dumps(sentence_to_index)
            if len(text) > _LONGEST_STRING:
                raise ValueError(
                    f"sentence_to_index: got {len(text):,} bytes; expected at most {_LONGEST_STRING:,}, which a string "
                    "of HDF5 can hold; continue with --resume --forget-sentences."
                )
            file.create_dataset("sentence_to_index", (1,), dtype=_h5py().string_dtype())[0] = text
        file.attrs[_INFO] = json.dumps(info)


def read_info(path: Path) -> dict[str, Any] | None:
    """What was written as `info`, or None in another file."""
    try:
        with _h5py().File(path, "r") as file:
            info: dict[str, Any] = json.loads(file.attrs[_INFO])
            return info
    except (OSError, KeyError, ValueError):
        return None


def _h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise ImportError('writing HDF5 needs h5py: pip install "spacy-elmo[dump]"') from error
    return h5py
