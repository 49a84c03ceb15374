"""Sentences from a text file of any size: one pre-tokenised sentence a line, or raw text."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Literal, get_args

from hf_elmo.character_ids import bad_word
from hf_elmo.pretraining.corpus import Document, SpacySentences, decide_layout

STDIN = "-"
Layout = Literal["auto", "wrapped", "paragraphs"]

# A longer line is no sentence; read in one piece it would take memory without bound.
_LONGEST_LINE_BYTES = 1 << 20
_LAYOUT_SAMPLE_LINES = 2_000


class TextInput:
    """The sentences of a file, read line by line in bounded memory, each a list of words.

    Pre-tokenised text is split at white space, and every line is a sentence, empty ones too, so that a sentence's
    number is that of its line.

    Args:
        path: a file, plain or `.gz`, or `"-"` for standard input, which can be read once only.
        raw: text that is not tokenised: words are those of `spacy.blank(language)`, sentences those of its
            sentencizer; blank lines are none.
        language: spaCy's language code for raw text.
        layout: of raw text: `"wrapped"` where a paragraph goes over several lines and ends with a blank one,
            `"paragraphs"` where each is a line, `"auto"` to decide by the first 2,000 lines.

    Raises:
        FileNotFoundError: no such file.
        ValueError: another layout, and, on iteration, a line that is not UTF-8, is longer than a mebibyte, or cannot be
            unpacked; the message names the line.
        ImportError: no spaCy, or not this language of it.
    """

    def __init__(self, path: str | Path, *, raw: bool = False, language: str = "en", layout: Layout = "auto") -> None:
        if layout not in get_args(Layout):
            raise ValueError(f"layout: got {layout!r}; expected one of {', '.join(get_args(Layout))}.")
        self.path = Path(path)
        self.is_stdin = str(path) == STDIN
        self.layout: Layout = layout
        self._raw_bytes: BinaryIO | None = None
        self._bytes_read = 0
        if not self.is_stdin and (not self.path.exists() or self.path.is_dir()):
            got = "got a folder" if self.path.is_dir() else "no such file"
            raise FileNotFoundError(f"{path}: {got}; expected a text file, plain or .gz, or - for standard input.")
        self._tokenise = SpacySentences(language) if raw else None

    @property
    def bytes_total(self) -> int:
        """The stored size, 0 where it is not known."""
        return self.path.stat().st_size if not self.is_stdin and self.path.is_file() else 0

    @property
    def bytes_read(self) -> int:
        """How far the file has been read, in bytes as stored."""
        return self._bytes_read if self._raw_bytes is None else self._raw_bytes.tell()

    def __iter__(self) -> Iterator[list[str]]:
        lines = self._lines()
        if self._tokenise is None:
            return map(str.split, lines)
        return self._tokenise(self._paragraphs(lines))

    def _paragraphs(self, lines: Iterator[str]) -> Iterator[str]:
        sample = [line.rstrip("\r\n") for line in islice(lines, _LAYOUT_SAMPLE_LINES)]
        layout = decide_layout(sample) if self.layout == "auto" else self.layout
        rest = (line.rstrip("\r\n") for line in lines)
        return Document(self._name, layout, chain(sample, rest)).paragraphs()

    def _lines(self) -> Iterator[str]:
        with self._opened() as stream:
            number = 0
            while line := self._read_line(stream, number + 1):
                number += 1
                try:
                    text = line.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise ValueError(
                        f"{self._name}: line {number}: got bytes {line[error.start : error.start + 4].hex(' ')} at "
                        f"byte {error.start} of the line; expected UTF-8 text; convert it, as by iconv -t UTF-8."
                    ) from error
                yield text.removeprefix("\ufeff") if number == 1 else text

    def _read_line(self, stream: BinaryIO, number: int) -> bytes:
        try:
            line = stream.readline(_LONGEST_LINE_BYTES + 1)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{self._name}: cannot be unpacked: {error}; fetch the file again.") from error
        if len(line) > _LONGEST_LINE_BYTES:
            raise ValueError(
                f"{self._name}: line {number}: got more than {_LONGEST_LINE_BYTES:,} bytes; expected one sentence, or "
                "one paragraph of raw text; break the line."
            )
        return line

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        if self.is_stdin:
            yield sys.stdin.buffer
            return
        with self.path.open("rb") as raw:
            self._raw_bytes = raw
            try:
                packed = self.path.suffix == ".gz"
                yield io.BufferedReader(gzip.GzipFile(fileobj=raw)) if packed else raw
            finally:
                self._bytes_read = raw.tell()
                self._raw_bytes = None

    @property
    def _name(self) -> str:
        return "standard input" if self.is_stdin else str(self.path)


def checked_words(number: int, sentence: Sequence[str]) -> list[str]:
    """The words of a sentence, each a string that can be spelled.

    Raises:
        TypeError: a sentence given as a string, or a word that is none.
        ValueError: a word with a lone surrogate; both name the sentence by its number, and the word.
    """
    if isinstance(sentence, str):
        raise TypeError(f"sentence {number}: got the string {sentence[:60]!r}; expected a list of words.")
    words = list(sentence)
    try:
        "".join(words).encode("utf-8")
    except (TypeError, UnicodeEncodeError):
        raise bad_word(words, where=f"sentence {number}: ") from None
    return words
