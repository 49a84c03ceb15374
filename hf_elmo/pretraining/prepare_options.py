"""How text becomes a prepared folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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
