"""Vocabulary files as they lie beside old weights: compressed, in Latin-1, with lines that name no word."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from hf_elmo.character_ids import PAD_WORD
from hf_elmo.vocabulary_file import MAXTERMID, check_vocabulary

LARGEST_VOCABULARY = 1 << 30  # bytes, decompressed


def read_old_vocabulary(path: str | Path) -> tuple[list[str], list[str]]:
    """The words of a vocabulary file, one for each row of the softmax, and what was unusual about it.

    The original reads any line as a word, though it never finds the earlier one of two equal lines, nor an empty one.
    Such a line keeps its place, since every line is a row, and gets the name `<row-N>`, N counted from 0.

    Raises:
        FileNotFoundError: no such file.
        ValueError: it cannot be decompressed, is too large, or does not begin with `<S>`, `</S>`, `<UNK>`.
    """
    path = Path(path)
    text, notes = _text(path)
    words = [line.strip() for line in text.removesuffix("\n").split("\n")]
    words = [word for word in words if word != MAXTERMID]
    last = {word: row for row, word in enumerate(words)}
    unnamed = [row for row, word in enumerate(words) if not word or word == PAD_WORD or last[word] != row]
    for row in unnamed[:]:
        words[row] = f"<row-{row}>"
    if unnamed:
        notes.append(
            f"{path.name}: {len(unnamed)} lines are empty, {PAD_WORD}, or stand again further down; the first of them "
            f"is {words[unnamed[0]]} now"
        )
    check_vocabulary((f"{path}, line {number}", word) for number, word in enumerate(words, start=1))
    return words, notes


def _text(path: Path) -> tuple[str, list[str]]:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected the vocabulary, one word a line.")
    content, notes = path.read_bytes(), []
    if content.startswith(b"\x1f\x8b"):
        try:
            with gzip.open(path) as file:
                content = file.read(LARGEST_VOCABULARY + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path}: cannot be decompressed, the file is damaged or cut off: {error}") from error
    if len(content) > LARGEST_VOCABULARY:
        raise ValueError(f"{path}: got more than {LARGEST_VOCABULARY} bytes; expected a vocabulary, one word a line.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
        notes.append(f"{path.name}: is not UTF-8; read as Latin-1")
    return text.replace("\r\n", "\n"), notes
