"""Text from files, Parquet and Hugging Face datasets, as documents, paragraphs and tokenised sentences.

A *document* is a file, or a row of a Parquet file or dataset. Its *layout* says how its lines are to be
understood:

* ``"wrapped"``: lines broken at a page width, a blank line between paragraphs; the lines of a paragraph are
  joined;
* ``"paragraphs"``: one paragraph a line;
* ``"sentences"``: one tokenised sentence a line, words separated by spaces (the 1 Billion Word Benchmark);
* ``"auto"``: decided for each document by `decide_layout`.

Paragraphs are tokenised by spaCy (imported only then), tokenised sentences are taken as they are.
"""

from __future__ import annotations

import codecs
import glob
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

Layout = Literal["auto", "wrapped", "paragraphs", "sentences"]
LAYOUTS: tuple[Layout, ...] = ("auto", "wrapped", "paragraphs", "sentences")
DATASET_PREFIX = "hf://"

_BLOCK_BYTES = 1 << 20
_MAX_LINE_CHARACTERS = 1_000_000
_LONG_PARAGRAPH_CHARACTERS = 10_000
_LAYOUT_SAMPLE_LINES = 2_000
_WIDEST_WRAPPED_LINE = 100
_TEXT_SUFFIXES = (".txt", ".txt.gz", ".text", ".text.gz", ".tokens", ".tokens.gz")
_ONE_BILLION_WORD_FILE = re.compile(r"-\d{5}-of-\d{5}(\.gz)?$")
_SENTENCE_END = re.compile(r"[.!?:;…][\"'”’)\]_*]*$")
_LINE_BROKEN_AT_HYPHEN = re.compile(r"\w-$")


@dataclass(frozen=True)
class Source:
    """A named part of a corpus.

    Args:
        name: what the report calls it; sources of one name are counted together.
        location: a file, a folder (read recursively), a glob pattern, or
            ``hf://NAME?config=..&split=..&column=..``.
        layout: see the module's docstring.
        times: how often an epoch of training reads it; a small source of the register that matters may be read more
            than once while a large one is read once.
    """

    name: str
    location: str
    layout: Layout = "auto"
    times: int = 1

    @classmethod
    def parse(cls, text: str, *, layout: Layout = "auto") -> Source:
        """Reads ``[NAME[:LAYOUT][*TIMES]=]LOCATION``; without NAME the last part of the location is the name.

        Raises:
            ValueError: unknown layout, a number of times below 1, or an empty name or location.
        """
        head, equals, location = text.partition("=")
        if not equals or Path(text).exists() or text.startswith(DATASET_PREFIX) or "/" in head:
            return cls(_name_of(text), text, layout)
        head, star, times = head.partition("*")
        if star and not (times.isdecimal() and int(times) > 0):
            raise ValueError(f"got {times!r} times in {text!r}, expected a whole number of at least 1")
        name, colon, own_layout = head.partition(":")
        if colon and own_layout not in LAYOUTS:
            raise ValueError(f"got layout {own_layout!r} in {text!r}, expected one of {', '.join(LAYOUTS)}")
        if not name or not location:
            raise ValueError(f"got {text!r}, expected [NAME[:LAYOUT][*TIMES]=]PATH")
        return cls(name, location, own_layout if colon else layout, int(times or 1))  # type: ignore[arg-type]


@dataclass
class Document:
    """One text, to be read once.

    Args:
        name: says where it comes from; decides whether the document is held out.
        layout: ``"wrapped"``, ``"paragraphs"`` or ``"sentences"``.
        lines: its lines, without line ends.
        bytes_read: how much of the source has been read so far (for progress).
    """

    name: str
    layout: Layout
    lines: Iterable[str]
    bytes_read: Callable[[], int] = field(default=lambda: 0)

    @property
    def is_tokenised(self) -> bool:
        """Whether its lines are sentences whose words stand between spaces."""
        return self.layout == "sentences"

    def paragraphs(self) -> Iterator[str]:
        """The document's paragraphs, or its tokenised sentences; blank ones left out."""
        joined = join_wrapped_lines(self.lines) if self.layout == "wrapped" else self.lines
        return (text for text in (" ".join(line.split()) for line in joined) if text)


def decide_layout(lines: Iterable[str], name: str = "") -> Layout:
    """Decides how a document is laid out from its first 2,000 lines.

    The rule: a file named like the 1 Billion Word Benchmark's (``…-00001-of-00100``) holds tokenised
    sentences. Otherwise the document is *wrapped* if lines of more than 100 characters make up less than a
    quarter of its text, and at least half of the lines that are directly followed by another one do not end
    like a sentence; else it has one paragraph a line. (A line of a wrapped text mostly stops in mid-sentence,
    a paragraph does not.)
    """
    if _ONE_BILLION_WORD_FILE.search(name):
        return "sentences"
    stripped = [line.strip() for line in islice(lines, _LAYOUT_SAMPLE_LINES)]
    characters = sum(map(len, stripped))
    in_long_lines = sum(len(line) for line in stripped if len(line) > _WIDEST_WRAPPED_LINE)
    followed = [line for line, following in pairwise(stripped) if line and following]
    in_mid_sentence = sum(1 for line in followed if not _SENTENCE_END.search(line))
    narrow = in_long_lines < 0.25 * characters
    return "wrapped" if narrow and followed and in_mid_sentence >= 0.5 * len(followed) else "paragraphs"


def join_wrapped_lines(lines: Iterable[str]) -> Iterator[str]:
    """Joins the lines between blank lines into paragraphs.

    A line broken after a hyphen inside a word is joined without a space. Texts without blank lines are cut at
    the first line that ends a sentence once 10,000 characters are together, so that no paragraph grows
    without bound.
    """
    paragraph: list[str] = []
    characters = 0
    for line in lines:
        text = line.strip()
        if text:
            paragraph.append(text if _LINE_BROKEN_AT_HYPHEN.search(text) else text + " ")
            characters += len(paragraph[-1])
        too_long = characters > _LONG_PARAGRAPH_CHARACTERS and _SENTENCE_END.search(text)
        if paragraph and (not text or too_long or characters > _MAX_LINE_CHARACTERS):
            yield "".join(paragraph)
            paragraph, characters = [], 0
    if paragraph:
        yield "".join(paragraph)


class TextLines:
    """The lines of a text file, plain or gzipped, decoded block by block in bounded memory.

    Lines of more than a million characters are cut at a space. `bytes_read` tells how much of the file (as
    stored) has been read.

    Raises:
        ValueError: on iteration, if bytes cannot be decoded (names file and byte offset), or the gzip data is
            broken.
    """

    def __init__(self, path: Path, *, encoding: str = "utf-8", errors: str = "strict") -> None:
        self.path = path
        self.encoding = encoding
        self.errors = errors
        self._raw: io.BufferedReader | None = None
        self._bytes_read = 0

    def bytes_read(self) -> int:
        """How far the file has been read, in bytes as stored."""
        return self._raw.tell() if self._raw is not None and not self._raw.closed else self._bytes_read

    def __iter__(self) -> Iterator[str]:
        rest = ""
        for text in self._decoded_blocks():
            *lines, rest = (rest + text).split("\n")
            yield from lines
            while len(rest) > _MAX_LINE_CHARACTERS:
                cut = rest.rfind(" ", 0, _MAX_LINE_CHARACTERS) + 1 or _MAX_LINE_CHARACTERS
                yield rest[:cut]
                rest = rest[cut:]
        if rest:
            yield rest

    def _decoded_blocks(self) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder(self.encoding)(self.errors)
        offset = 0
        for block in self._blocks():
            offset += len(block)
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                raise ValueError(self._undecodable(error, offset)) from error
            yield text.removeprefix("\ufeff") if offset == len(block) else text

    def _blocks(self) -> Iterator[bytes]:
        """The unpacked bytes; the last block, and only that, is empty."""
        with self.path.open("rb") as raw:
            self._raw = raw
            stream = gzip.GzipFile(fileobj=raw) if self.path.suffix == ".gz" else raw
            block = b"first"
            while block:
                try:
                    block = stream.read(_BLOCK_BYTES)
                except (OSError, EOFError, zlib.error) as error:
                    raise ValueError(f"{self.path}: cannot be unpacked: {error}; fetch the file again") from error
                yield block
            self._bytes_read = raw.tell()

    def _undecodable(self, error: UnicodeDecodeError, bytes_so_far: int) -> str:
        position = bytes_so_far - len(error.object) + error.start
        got = error.object[error.start : error.start + 4].hex(" ")
        return (
            f"{self.path}: got bytes {got} at byte offset {position}, expected {self.encoding} text; "
            "name the file's encoding (--encoding latin-1), or replace what cannot be read "
            "(--encoding-errors replace)"
        )


def find_files(location: str) -> list[Path]:
    """The files of a location (a file, a folder, or a glob pattern), sorted by path.

    In a folder: text files (``.txt``, ``.txt.gz``, …), ``.parquet``, and files named as in the 1 Billion Word
        Benchmark.

    Raises:
        FileNotFoundError: nothing is there.
        ValueError: a folder without any file of these kinds.
    """
    path = Path(location)
    if path.is_file():
        return [path]
    if path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.is_file() and not _is_hidden(file, path))
        files = [file for file in inside if _is_text(file) or file.suffix == ".parquet"]
        if not files:
            seen = ", ".join(sorted({file.name for file in inside})[:5]) or "nothing"
            raise ValueError(
                f"{path}: got a folder with {seen}, expected {', '.join(_TEXT_SUFFIXES)} or .parquet files; "
                "name other files by a glob pattern"
            )
        return files
    matches = sorted(Path(match) for match in glob.glob(location, recursive=True) if Path(match).is_file())
    if not matches:
        raise FileNotFoundError(f"{location}: got no such file or folder, expected a file, a folder or a glob pattern")
    return matches


def source_bytes(source: Source) -> int:
    """The stored size of a source in bytes; 0 for a dataset, whose size is not known beforehand."""
    if source.location.startswith(DATASET_PREFIX):
        return 0
    return sum(file.stat().st_size for file in find_files(source.location))


def read_documents(
    source: Source, *, encoding: str = "utf-8", encoding_errors: str = "strict", column: str = "text"
) -> Iterator[Document]:
    """The documents of a source in a fixed order, each to be read before the next is asked for.

    Raises:
        FileNotFoundError, ValueError: see `find_files` and `TextLines`; a Parquet file or dataset without
            `column`.
    """
    if source.location.startswith(DATASET_PREFIX):
        yield from _documents_of_dataset(source, column=column)
        return
    before = 0
    for path in find_files(source.location):
        if path.suffix == ".parquet":
            documents = _documents_of_parquet(source, path, column=column)
        else:
            documents = _document_of_file(source, path, encoding=encoding, errors=encoding_errors)
        for document in documents:
            yield replace(document, bytes_read=partial(_bytes_with, before, document.bytes_read))
        before += path.stat().st_size


def tokenise_given(paragraphs: Iterable[str]) -> Iterator[list[str]]:
    """Tokenised sentences, one a line: split at white space."""
    return (words for words in (line.split() for line in paragraphs) if words)


class SpacySentences:
    """Tokens of ``spacy.blank(language)`` and sentences of its sentencizer, white space tokens left out.

    Raises:
        ImportError: spaCy is not installed.
    """

    def __init__(self, language: str = "en") -> None:
        try:
            import spacy
        except ImportError as error:
            raise ImportError(
                "reading raw text needs spaCy, which is not installed: pip install spacy, "
                'or give tokenised sentences (layout "sentences")'
            ) from error
        self.nlp = spacy.blank(language)
        self.nlp.add_pipe("sentencizer")
        self.nlp.max_length = 10 * _MAX_LINE_CHARACTERS
        self.description = f'spaCy {spacy.__version__} blank("{language}") with sentencizer'

    def __call__(self, paragraphs: Iterable[str]) -> Iterator[list[str]]:
        """Tokenised sentences of paragraphs; no sentence crosses a paragraph."""
        for paragraph in paragraphs:
            sentence: list[str] = []
            for token in self.nlp(paragraph):
                if token.is_sent_start and sentence:
                    yield sentence
                    sentence = []
                if not token.is_space:
                    sentence.append(token.text)
            if sentence:
                yield sentence


def _document_of_file(source: Source, path: Path, *, encoding: str, errors: str) -> Iterator[Document]:
    lines = TextLines(path, encoding=encoding, errors=errors)
    remaining = iter(lines)
    sample = list(islice(remaining, _LAYOUT_SAMPLE_LINES))
    layout = decide_layout(sample, path.name) if source.layout == "auto" else source.layout
    yield Document(_document_name(source, path), layout, chain(sample, remaining), lines.bytes_read)


def _documents_of_parquet(source: Source, path: Path, *, column: str) -> Iterator[Document]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"{path}: reading Parquet needs pyarrow: pip install pyarrow") from error
    file = parquet.ParquetFile(path)
    if column not in file.schema_arrow.names:
        raise ValueError(f"{path}: got columns {file.schema_arrow.names}, expected {column!r}; name it with --column")
    rows = (row.as_py() for batch in file.iter_batches(256, columns=[column]) for row in batch.column(0))
    size = path.stat().st_size
    total = max(1, file.metadata.num_rows)
    for number, text in enumerate(rows):
        read = size * (number + 1) // total
        name = f"{_document_name(source, path)}#{number}"
        yield _document_of_row(source, name, text, partial(int, read))


def _documents_of_dataset(source: Source, *, column: str) -> Iterator[Document]:
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise ImportError(f"{source.location}: needs the package datasets: pip install datasets") from error
    parts = urlsplit(source.location)
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    name = parts.netloc + parts.path
    column = options.pop("column", column)
    rows = load_dataset(
        name, options.pop("config", None), split=options.pop("split", "train"), streaming=True, **options
    )
    for number, row in enumerate(rows):
        if column not in row:
            raise ValueError(
                f"{source.location}: got columns {sorted(row)}, expected {column!r}; name it with ?column= or --column"
            )
        yield _document_of_row(source, f"{source.name}/{name}#{number}", row[column], lambda: 0)


def _document_of_row(source: Source, name: str, text: str | None, bytes_read: Callable[[], int]) -> Document:
    lines = (text or "").split("\n")
    return Document(name, decide_layout(lines) if source.layout == "auto" else source.layout, lines, bytes_read)


def _document_name(source: Source, path: Path) -> str:
    """The same wherever the corpus lies, so that the held-out split is the same on every machine."""
    root = Path(source.location)
    return f"{source.name}/{path.relative_to(root).as_posix() if root.is_dir() else path.name}"


def _bytes_with(before: int, in_file: Callable[[], int]) -> int:
    return before + in_file()


def _is_text(path: Path) -> bool:
    return path.name.endswith(_TEXT_SUFFIXES) or _ONE_BILLION_WORD_FILE.search(path.name) is not None


def _is_hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(root).parts)


def _name_of(location: str) -> str:
    stem = urlsplit(location).path or urlsplit(location).netloc if "://" in location else location.rstrip("/")
    name = Path(stem).name.split(".")[0] or Path(stem).name
    return re.sub(r"[^\w-]+", "_", name).strip("_") or "text"
