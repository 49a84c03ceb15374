"""A long text cut into parts, and the vectors of each in a file of its own.

Where the parts begin and end follows from the sentences and the sizes alone, so that a run that is continued, or one on
several machines, makes the same parts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from hf_elmo.ordinary_file import make_ordinary
from hf_elmo.text_input import checked_words

# Bounds of a part besides that of its vectors: its words stand in the file's header.
_MAX_SENTENCES = 1 << 16
_MAX_CHARACTERS = 1 << 24
_HEADER = "hf_elmo"


class Part(NamedTuple):
    """Consecutive sentences.

    Attributes:
        number: of the part, from 0 on.
        first: number of its first sentence.
        sentences: their words.
    """

    number: int
    first: int
    sentences: list[list[str]]

    @property
    def num_words(self) -> int:
        """Of all sentences."""
        return sum(map(len, self.sentences))


def split_into_parts(sentences: Iterable[Sequence[str]], *, bytes_per_word: int, bytes_per_part: int) -> Iterator[Part]:
    """Cut a stream of sentences wherever the vectors so far would outgrow a part; at most one sentence is read ahead.

    Raises:
        TypeError: a sentence given as a string, or a word that is none.
        ValueError: a word with a lone surrogate; both name the sentence and the word.
    """
    number, first, size, characters = 0, 0, 0, 0
    collected: list[list[str]] = []
    for index, sentence in enumerate(sentences):
        words = checked_words(index, sentence)
        own_size, own_characters = len(words) * bytes_per_word, sum(map(len, words))
        if collected and (
            size + own_size > bytes_per_part
            or characters + own_characters > _MAX_CHARACTERS
            or len(collected) == _MAX_SENTENCES
        ):
            yield Part(number, first, collected)
            number, first, size, characters = number + 1, index, 0, 0
            collected = []
        collected.append(words)
        size += own_size
        characters += own_characters
    if collected:
        yield Part(number, first, collected)


def write_part(path: Path, part: Part, vectors: Sequence[np.ndarray], *, beside: Path) -> None:
    """Write vectors under the sentences' numbers, and the words in the header; the file is complete or not there.

    Args:
        path: where the part is to be.
        part: the sentences.
        vectors: one array a sentence.
        beside: a folder of the same file system, to write in first.

    Raises:
        OSError: it cannot be written, as on a full disk.
    """
    header = json.dumps({"first": part.first, "words": part.sentences}, ensure_ascii=False)
    tensors = {str(part.first + i): vector for i, vector in enumerate(vectors)}
    unfinished = beside / f"{path.name}.{os.getpid()}"
    try:
        save_file(tensors, unfinished, metadata={_HEADER: header})
    except SafetensorError as error:
        raise OSError(f"{unfinished}: cannot be written: {error}") from error
    make_ordinary(unfinished)
    sync(unfinished)
    os.replace(unfinished, path)


def read_words(path: Path) -> tuple[int, list[list[str]]]:
    """The number of a part's first sentence, and the words of them all.

    Raises:
        ValueError: the file is damaged or no part.
    """
    try:
        with safe_open(path, framework="np") as file:
            header: dict[str, Any] = json.loads((file.metadata() or {})[_HEADER])
            return int(header["first"]), header["words"]
    except (SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: got a file that is damaged or none of this program's ({error}).") from error


def read_vectors(path: Path) -> Iterator[tuple[int, list[str], np.ndarray]]:
    """Number, words and vectors of a part's sentences, in their order; one at a time is in memory."""
    first, sentences = read_words(path)
    with safe_open(path, framework="np") as file:
        for number, words in enumerate(sentences, start=first):
            yield number, words, file.get_tensor(str(number))


def sync(path: Path) -> None:
    """Wait until a file's content is on the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
