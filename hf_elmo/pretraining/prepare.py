"""From text to a prepared folder, in two passes and bounded memory.

First pass: documents are cut into chunks of paragraphs, a pool of processes tokenises them, and the words
come back as numbers in the order in which the words were first seen; these go to a spool file on disk while
the words are counted. Second pass: with the final order of the word table known, the chunks of the spool are
renumbered and written as shards, in random order for training, so that every shard is a mixture of all
sources.

Memory holds the table of distinct words, a few chunks for each process, and one shard; never the text.
"""

from __future__ import annotations

import hashlib
import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np

from hf_elmo.pretraining.corpus import (
    DATASET_PREFIX,
    Source,
    SpacySentences,
    find_files,
    read_documents,
    source_bytes,
    tokenise_given,
)
from hf_elmo.pretraining.shards import (
    HELDOUT_PREFIX,
    LAYOUT_VERSION,
    TRAIN,
    PreparedCorpus,
    ShardWriter,
    write_tables,
    written_beside,
)
from hf_elmo.pretraining.vocabulary import (
    order_by_frequency,
    vocabulary_size_for,
)
from hf_elmo.vocabulary_file import SPECIAL_WORDS, read_vocabulary

_CHUNK_CHARACTERS = 200_000
_CHUNKS_IN_FLIGHT = 4
_CHUNKS_WITHOUT_POOL = 8

DocumentUnit = Literal["file", "line"]


@dataclass(frozen=True)
class PrepareOptions:
    """How text becomes a prepared folder.

    Args:
        vocab_size: lines of the LM vocabulary, special words included (default: all words of the training
            text).
        min_count: instead of `vocab_size`: words seen at least so often.
        vocabulary: a vocabulary file whose order is kept (for training a given model further); its length is
            V.
        heldout_share: share of the training documents to hold out, chosen by a hash of their names.
        document: what a document is in a file: the whole file, or each line or paragraph of it.
        shard_words: words in a shard, about.
        processes: processes that tokenise; 1 works in this one.
        language: spaCy's language code for raw text.
        encoding, encoding_errors: how files are decoded (`codecs`).
        column: the text column of Parquet files and datasets.
        max_characters_per_word: C; words of more than C - 2 bytes are reported as cut.
        seed: of the order of the chunks.
        overwrite: replace a prepared folder that is there already.
    """

    vocab_size: int | None = None
    min_count: int | None = None
    vocabulary: Path | None = None
    heldout_share: float = 0.0
    document: DocumentUnit = "file"
    shard_words: int = 1_000_000
    processes: int = 1
    language: str = "en"
    encoding: str = "utf-8"
    encoding_errors: str = "strict"
    column: str = "text"
    max_characters_per_word: int = 50
    seed: int = 0
    overwrite: bool = False

    def check(self) -> None:
        """Raises ValueError where two options contradict each other or one is out of its range."""
        if self.vocabulary is not None and (self.vocab_size is not None or self.min_count is not None):
            raise ValueError("got a vocabulary and a size or minimum count for a new one, expected one of the two")
        if not 0 <= self.heldout_share < 1:
            raise ValueError(f"got heldout_share={self.heldout_share}, expected 0 <= share < 1")
        if self.processes < 1:
            raise ValueError(f"got processes={self.processes}, expected at least 1")
        if self.encoding_errors not in ("strict", "replace", "ignore"):
            raise ValueError(f"got encoding_errors={self.encoding_errors!r}, expected strict, replace or ignore")
        if self.shard_words < 1:
            raise ValueError(f"got shard_words={self.shard_words}, expected at least 1")


class Progress(NamedTuple):
    """How far the first pass is: bytes of input read and in all (0: not known), words, sentences."""

    bytes_read: int
    bytes_total: int
    words: int
    sentences: int


class Chunk(NamedTuple):
    """Consecutive paragraphs of one source and split, enough to be worth sending to another process."""

    split: str
    source: str
    is_tokenised: bool
    paragraphs: list[str]
    documents: int
    bytes_read: int


class TokenisedChunk(NamedTuple):
    """Sentences as numbers into their own list of distinct words.

    `distinct` n words, `counts` (n,) int64, `words` (tokens,) int32 into `distinct`, `lengths` (sentences,)
    int32.
    """

    distinct: list[str]
    counts: np.ndarray
    words: np.ndarray
    lengths: np.ndarray


class SpooledChunk(NamedTuple):
    """Where a tokenised chunk lies in the spool: starts and ends, in numbers, of its words and sentence
    lengths.
    """

    source: str
    words: slice
    lengths: slice


@dataclass
class SourceTotals:
    """How much text a source gave to a split."""

    tokens: int = 0
    sentences: int = 0
    documents: int = 0


@dataclass
class SplitTotals:
    """What the first pass learns of one split; `counts` (distinct words so far,) int64, or shorter."""

    counts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    sources: dict[str, SourceTotals] = field(default_factory=dict)
    chunks: list[SpooledChunk] = field(default_factory=list)

    def add_counts(self, rows: np.ndarray, counts: np.ndarray, size: int) -> None:
        """Adds `counts` (n,) to the distinct words `rows` (n,), of which there are `size` by now."""
        if len(self.counts) < size:
            self.counts = np.concatenate([self.counts, np.zeros(2 * size - len(self.counts), np.int64)])
        self.counts[rows] += counts  # `rows` has no duplicates

    def total(self, what: str) -> int:
        """The sum of one of the totals over all sources."""
        return sum(getattr(source, what) for source in self.sources.values())


def prepare(
    train: Sequence[Source],
    out: str | Path,
    *,
    heldout: Sequence[Source] = (),
    options: PrepareOptions | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> PreparedCorpus:
    """Tokenises and counts text and writes the prepared folder `out`.

    Args:
        train: the sources to train on. A folder of the 1 Billion Word Benchmark is recognised: its own
            held-out files become held-out text.
        out: the folder to make (see `hf_elmo.pretraining.shards`).
        heldout: sources held out; each name is a split ``heldout-NAME`` of its own.
        options: everything else.
        progress: called after every chunk.

    Raises:
        FileNotFoundError, FileExistsError, ValueError: one message that says what was got, expected, and what
            to do.
    """
    options = options or PrepareOptions()
    options.check()
    train, heldout = _split_one_billion_word(train, heldout)
    if not train:
        raise ValueError("got no source to train on, expected at least one file, folder, glob pattern or dataset")
    given = read_vocabulary(options.vocabulary) if options.vocabulary else list(SPECIAL_WORDS)
    _check_apart(train, heldout)
    bytes_total = sum(source_bytes(source) for source in [*train, *heldout])
    with written_beside(Path(out), overwrite=options.overwrite) as folder:
        first = FirstPass(folder, given)
        chunks = _chunks(train, heldout, options)
        for chunk, tokenised in _tokenised(chunks, options):
            first.add(chunk, tokenised)
            if progress is not None:
                progress(Progress(chunk.bytes_read, bytes_total, first.words_seen, first.sentences_seen))
        first.close()
        _check_splits(first.splits, train, heldout, options)
        _write_second_pass(folder, first, given, options)
    return PreparedCorpus.open(out)


class FirstPass:
    """Gives every word a provisional row in the order of first sight, counts, and spools the rows to disk."""

    def __init__(self, folder: Path, first_words: Sequence[str]) -> None:
        self.table = {word: row for row, word in enumerate(first_words)}
        self.splits: dict[str, SplitTotals] = {TRAIN: SplitTotals()}
        self.words_seen = 0
        self.sentences_seen = 0
        self.kinds: set[bool] = set()
        self.spooled_words = folder / "words.spool"
        self.spooled_lengths = folder / "lengths.spool"
        self._words_file: BinaryIO = self.spooled_words.open("wb")
        self._lengths_file: BinaryIO = self.spooled_lengths.open("wb")

    def add(self, chunk: Chunk, tokenised: TokenisedChunk) -> None:
        """Counts a tokenised chunk and writes it to the spool."""
        self.kinds.add(chunk.is_tokenised)
        table = self.table
        rows = np.array([table.setdefault(word, len(table)) for word in tokenised.distinct], np.int32)
        split = self.splits.setdefault(chunk.split, SplitTotals())
        split.add_counts(rows, tokenised.counts, len(table))
        words = rows[tokenised.words] if len(rows) else tokenised.words
        words.tofile(self._words_file)
        tokenised.lengths.tofile(self._lengths_file)
        split.chunks.append(
            SpooledChunk(
                chunk.source,
                slice(self.words_seen, self.words_seen + len(words)),
                slice(self.sentences_seen, self.sentences_seen + len(tokenised.lengths)),
            )
        )
        self.words_seen += len(words)
        self.sentences_seen += len(tokenised.lengths)
        totals = split.sources.setdefault(chunk.source, SourceTotals())
        totals.tokens += len(words)
        totals.sentences += len(tokenised.lengths)
        totals.documents += chunk.documents

    def close(self) -> None:
        """Closes the spool files."""
        self._words_file.close()
        self._lengths_file.close()


def tokenise_chunk(chunk: Chunk, language: str) -> TokenisedChunk:
    """Tokenises a chunk; runs in the processes of the pool."""
    tokenise = tokenise_given if chunk.is_tokenised else _spacy_sentences(language)
    distinct: dict[str, int] = {}
    words: list[int] = []
    lengths: list[int] = []
    for sentence in tokenise(chunk.paragraphs):
        words.extend([distinct.setdefault(word, len(distinct)) for word in sentence])
        lengths.append(len(sentence))
    numbers = np.array(words, np.int32)
    counts = np.bincount(numbers, minlength=len(distinct)).astype(np.int64)
    return TokenisedChunk(list(distinct), counts, numbers, np.array(lengths, np.int32))


_TOKENISERS: dict[str, SpacySentences] = {}


def _spacy_sentences(language: str) -> SpacySentences:
    if language not in _TOKENISERS:
        _TOKENISERS[language] = SpacySentences(language)
    return _TOKENISERS[language]


def _split_one_billion_word(train: Sequence[Source], heldout: Sequence[Source]) -> tuple[list[Source], list[Source]]:
    """Replaces the benchmark's root folder by its two parts."""
    to_train: list[Source] = []
    to_hold_out = list(heldout)
    for source in train:
        root = Path(source.location)
        training = root / "training-monolingual.tokenized.shuffled"
        if training.is_dir():
            to_train.append(Source(source.name, str(training), "sentences"))
            held = root / "heldout-monolingual.tokenized.shuffled"
            if held.is_dir():
                to_hold_out.append(Source(source.name, str(held), "sentences"))
        else:
            to_train.append(source)
    return to_train, to_hold_out


def _check_apart(train: Sequence[Source], heldout: Sequence[Source]) -> None:
    """No text is both trained on and held out."""
    trained_on, held_out = (
        {
            str(file.resolve())
            for source in sources
            if not source.location.startswith(DATASET_PREFIX)
            for file in find_files(source.location)
        }
        | {source.location for source in sources if source.location.startswith(DATASET_PREFIX)}
        for sources in (train, heldout)
    )
    both = sorted(trained_on & held_out)
    if both:
        raise ValueError(f"got {both[0]} to train on and to hold out ({len(both)} such), expected it in one of the two")


def _chunks(train: Sequence[Source], heldout: Sequence[Source], options: PrepareOptions) -> Iterator[Chunk]:
    bytes_before = 0
    for sources, held in ((train, False), (heldout, True)):
        for source in sources:
            yield from _chunks_of_source(source, held, bytes_before, options)
            bytes_before += source_bytes(source)


def _chunks_of_source(source: Source, held: bool, bytes_before: int, options: PrepareOptions) -> Iterator[Chunk]:
    """Chunks of one source; those of the training and of the held-out part are gathered side by side."""
    gathered: dict[tuple[str, bool], _Gathered] = {}
    bytes_read = bytes_before
    by_line = options.document == "line"
    for document in read_documents(
        source, encoding=options.encoding, encoding_errors=options.encoding_errors, column=options.column
    ):
        for number, paragraph in enumerate(document.paragraphs()):
            name = f"{document.name}#{number}" if by_line else document.name
            is_held = held or _is_held_out(name, options.heldout_share)
            key = (f"{HELDOUT_PREFIX}{source.name}" if is_held else TRAIN, document.is_tokenised)
            part = gathered.setdefault(key, _Gathered())
            part.add(paragraph, starts_document=by_line or number == 0)
            if part.characters >= _CHUNK_CHARACTERS:
                bytes_read = bytes_before + document.bytes_read()
                yield gathered.pop(key).chunk(key, source.name, bytes_read)
        bytes_read = bytes_before + document.bytes_read()
    for key, part in gathered.items():
        yield part.chunk(key, source.name, bytes_read)


@dataclass
class _Gathered:
    paragraphs: list[str] = field(default_factory=list)
    characters: int = 0
    documents: int = 0

    def add(self, paragraph: str, *, starts_document: bool) -> None:
        self.paragraphs.append(paragraph)
        self.characters += len(paragraph)
        self.documents += starts_document

    def chunk(self, key: tuple[str, bool], source: str, bytes_read: int) -> Chunk:
        split, is_tokenised = key
        return Chunk(split, source, is_tokenised, self.paragraphs, self.documents, bytes_read)


def _is_held_out(name: str, share: float) -> bool:
    if not share:
        return False
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def _tokenised(chunks: Iterator[Chunk], options: PrepareOptions) -> Iterator[tuple[Chunk, TokenisedChunk]]:
    """Tokenised chunks in the order of the chunks, whatever the number of processes."""
    few = list(islice(chunks, _CHUNKS_WITHOUT_POOL)) if options.processes > 1 else []
    if len(few) < _CHUNKS_WITHOUT_POOL:  # starting processes would take longer than the work
        for chunk in chain(few, chunks):
            yield chunk, tokenise_chunk(chunk, options.language)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, mp_context=spawn) as pool:
        running: deque[tuple[Chunk, Future[TokenisedChunk]]] = deque()
        try:
            for chunk in chain(few, chunks):
                running.append((chunk, pool.submit(tokenise_chunk, chunk, options.language)))
                if len(running) >= _CHUNKS_IN_FLIGHT * options.processes:
                    done, future = running.popleft()
                    yield done, future.result()
            while running:
                done, future = running.popleft()
                yield done, future.result()
        finally:
            for _, future in running:
                future.cancel()


def _check_splits(
    splits: dict[str, SplitTotals],
    train: Sequence[Source],
    heldout: Sequence[Source],
    options: PrepareOptions,
) -> None:
    """Every split that was asked for has words."""
    if not splits[TRAIN].total("tokens"):
        locations = ", ".join(source.location for source in train)
        raise ValueError(f"got no word to train on in {locations}, expected text; look at the files and the layout")
    for source in heldout:
        split = splits.get(f"{HELDOUT_PREFIX}{source.name}")
        if split is None or not split.total("tokens"):
            raise ValueError(f"got no held-out word in {source.location}, expected text; look at the files")
    if options.heldout_share and len(splits) == 1:
        documents = splits[TRAIN].total("documents")
        raise ValueError(
            f"got no held-out document from a share of {options.heldout_share} of {documents} documents, "
            "expected some; raise the share, name held-out files, or let a line be a document "
            '(document="line")'
        )


def _write_second_pass(folder: Path, first: FirstPass, given: list[str], options: PrepareOptions) -> None:
    size = len(first.table)
    train_counts = _padded(first.splits[TRAIN].counts, size)
    words = order_by_frequency(dict(zip(first.table, train_counts.tolist(), strict=True)), first=given)
    provisional = np.array([first.table[word] for word in words], np.int64)  # (words,)
    final_row = np.empty(size, np.int32)  # (words,) provisional -> final
    final_row[provisional] = np.arange(size, dtype=np.int32)
    counts = train_counts[provisional]
    if options.vocabulary:
        vocab_size = len(given)
    else:
        vocab_size = vocabulary_size_for(counts, vocab_size=options.vocab_size, min_count=options.min_count)
    is_cut = _cut_words(words, options.max_characters_per_word)
    splits: dict[str, Any] = {}
    for name in sorted(first.splits, key=lambda name: (name != TRAIN, name)):
        split = first.splits[name]
        files = _write_shards(folder, name, first, final_row, options)
        splits[name] = _split_report(split, _padded(split.counts, size)[provisional], is_cut, vocab_size)
        splits[name]["files"] = files
    report = {
        "layout_version": LAYOUT_VERSION,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "tokeniser": _tokeniser_description(first.kinds, options),
        "max_characters_per_word": options.max_characters_per_word,
        "most_frequent_cut_words": [words[row] for row in np.flatnonzero(is_cut)[:20]],
        "distinct_words": size,
        "vocab_size": vocab_size,
        "seed": options.seed,
        "splits": splits,
    }
    write_tables(folder, words=words, counts=counts, report=report)
    first.spooled_words.unlink()
    first.spooled_lengths.unlink()


def _write_shards(
    folder: Path, name: str, first: FirstPass, final_row: np.ndarray, options: PrepareOptions
) -> list[str]:
    chunks = first.splits[name].chunks
    order = np.random.default_rng(options.seed).permutation(len(chunks)) if name == TRAIN else range(len(chunks))
    words = np.memmap(first.spooled_words, np.int32, "r") if first.words_seen else np.zeros(0, np.int32)
    lengths = np.memmap(first.spooled_lengths, np.int32, "r") if first.sentences_seen else np.zeros(0, np.int32)
    writer = ShardWriter(folder, name, shard_words=options.shard_words)
    for number in order:
        chunk = chunks[number]
        writer.add(final_row[words[chunk.words]], np.array(lengths[chunk.lengths]))
    writer.flush()
    return writer.files


def _cut_words(words: Sequence[str], max_characters_per_word: int) -> np.ndarray:
    from hf_elmo.character_ids import is_cut

    return np.array([is_cut(word, max_characters_per_word=max_characters_per_word) for word in words], bool)


def _split_report(split: SplitTotals, counts: np.ndarray, is_cut: np.ndarray, vocab_size: int) -> dict[str, Any]:
    tokens = split.total("tokens")
    sentences = split.total("sentences")
    sources = {
        name: {
            "tokens": source.tokens,
            "sentences": source.sentences,
            "documents": source.documents,
            "share": round(source.tokens / max(1, tokens), 6),
        }
        for name, source in split.sources.items()
    }
    return {
        "tokens": tokens,
        "sentences": sentences,
        "documents": split.total("documents"),
        "predictions_per_direction": tokens + sentences,
        "distinct_words": int((counts > 0).sum()),
        "oov_tokens": int(counts[vocab_size:].sum()),
        "oov_rate": round(int(counts[vocab_size:].sum()) / max(1, tokens), 6),
        "cut_tokens": int(counts[is_cut].sum()),
        "cut_distinct_words": int((counts[is_cut] > 0).sum()),
        "sources": sources,
    }


def _tokeniser_description(kinds: set[bool], options: PrepareOptions) -> str:
    parts = []
    if False in kinds:
        parts.append(f'spaCy {version("spacy")} blank("{options.language}") with sentencizer')
    if True in kinds:
        parts.append("tokenised sentences as given, split at white space")
    return "; ".join(parts)


def _padded(counts: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([counts, np.zeros(max(0, size - len(counts)), np.int64)])[:size]


def describe_report(report: dict[str, Any]) -> str:
    """The report as a few lines for a person."""
    lines = [
        f"words.txt: {report['distinct_words']:,} distinct words, LM vocabulary {report['vocab_size']:,}; "
        f"tokens: {report['tokeniser']}"
    ]
    for name, split in report["splits"].items():
        lines.append(
            f"{name}: {split['tokens']:,} words, {split['sentences']:,} sentences, "
            f"{split['documents']:,} documents, {len(split['files'])} shards; "
            f"outside the vocabulary {100 * split['oov_rate']:.2f} %, "
            f"cut at {report['max_characters_per_word'] - 2} bytes {split['cut_tokens']:,} "
            f"({split['cut_distinct_words']:,} distinct)"
        )
        if len(split["sources"]) > 1:
            lines += [
                f"    {source}: {part['tokens']:,} words ({100 * part['share']:.1f} %), {part['documents']:,} documents"
                for source, part in split["sources"].items()
            ]
    return "\n".join(lines)
