"""Text in pieces worth sending to another process, and those pieces tokenised by a pool."""

from __future__ import annotations

import hashlib
import multiprocessing
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from hf_elmo.pretraining.corpus import Source, SpacySentences, read_documents, source_bytes, tokenise_given
from hf_elmo.pretraining.prepare_options import PrepareOptions
from hf_elmo.pretraining.shards import HELDOUT_PREFIX, TRAIN

_CHUNK_CHARACTERS = 200_000
_CHUNKS_IN_FLIGHT = 4
_CHUNKS_WITHOUT_POOL = 8


class Chunk(NamedTuple):
    """Consecutive paragraphs of one source and split, enough to be worth sending to another process."""

    split: str
    source: str
    is_tokenised: bool
    paragraphs: list[str]
    documents: int
    bytes_read: int
    times: int = 1  # how often an epoch reads it


class TokenisedChunk(NamedTuple):
    """Sentences as numbers into their own list of distinct words.

    `distinct` n words, `counts` (n,) int64, `words` (tokens,) int32 into `distinct`, `lengths` (sentences,)
    int32.
    """

    distinct: list[str]
    counts: np.ndarray
    words: np.ndarray
    lengths: np.ndarray


def read_chunks(train: Sequence[Source], heldout: Sequence[Source], options: PrepareOptions) -> Iterator[Chunk]:
    """All text of the sources in chunks, the held-out part last."""
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
                yield gathered.pop(key).chunk(key, source, bytes_read)
        bytes_read = bytes_before + document.bytes_read()
    for key, part in gathered.items():
        yield part.chunk(key, source, bytes_read)


@dataclass
class _Gathered:
    paragraphs: list[str] = field(default_factory=list)
    characters: int = 0
    documents: int = 0

    def add(self, paragraph: str, *, starts_document: bool) -> None:
        self.paragraphs.append(paragraph)
        self.characters += len(paragraph)
        self.documents += starts_document

    def chunk(self, key: tuple[str, bool], source: Source, bytes_read: int) -> Chunk:
        split, is_tokenised = key
        times = source.times if split == TRAIN else 1
        return Chunk(split, source.name, is_tokenised, self.paragraphs, self.documents, bytes_read, times)


def _is_held_out(name: str, share: float) -> bool:
    if not share:
        return False
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def tokenised_chunks(chunks: Iterator[Chunk], options: PrepareOptions) -> Iterator[tuple[Chunk, TokenisedChunk]]:
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
