"""The prepared form of a corpus: a table of distinct words, and shards of row numbers into it.

A prepared folder holds

* ``words.txt``: all distinct words, ``<S>``, ``</S>``, ``<UNK>`` first, then by falling frequency in the
  training text; the LM vocabulary is its first V lines, and V may be chosen anew at each training;
* ``counts.safetensors``: ``counts`` (words,) int64, occurrences in the training text;
* ``vocab.txt``: the first V lines, V as chosen at preparation;
* ``train-00000.safetensors`` …, ``heldout-NAME-00000.safetensors`` …: ``words`` (n,) int32, rows of
  words.txt, and ``offsets`` (sentences + 1,) int64: sentence s is ``words[offsets[s]:offsets[s + 1]]``,
  without boundaries;
* ``prepared.json``: the report (counts of tokens, sentences, documents; cut and unknown words; sources;
  tokeniser).

It is written into a temporary folder next to its place and renamed when complete.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from hf_elmo.new_folder import new_folder
from hf_elmo.vocabulary_file import SPECIAL_WORDS, read_vocabulary, write_vocabulary

LAYOUT_VERSION = 1
TRAIN = "train"
HELDOUT_PREFIX = "heldout-"
_REPORT = "prepared.json"
_WORDS = "words.txt"
_COUNTS = "counts.safetensors"


class Shard(NamedTuple):
    """Some sentences: `words` (n,) int32 rows of the word table, `offsets` (sentences + 1,) int64."""

    words: np.ndarray
    offsets: np.ndarray

    @property
    def sentences(self) -> int:
        """How many sentences the shard holds."""
        return len(self.offsets) - 1


@dataclass(frozen=True)
class PreparedCorpus:
    """A prepared folder, opened. Shards are read one at a time, when asked for.

    Args:
        path: the folder.
        report: the content of ``prepared.json``.
    """

    path: Path
    report: dict[str, Any]

    @classmethod
    def open(cls, path: str | Path) -> PreparedCorpus:
        """Opens a prepared folder and checks that its parts belong together.

        Raises:
            FileNotFoundError: no such folder, or a file is missing.
            ValueError: not a prepared folder, another layout version, or a words.txt that is not the one
                prepared.
        """
        folder = Path(path)
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder}: got no such folder, expected one made by `hf-elmo prepare`")
        if not (folder / _REPORT).is_file():
            raise ValueError(f"{folder}: got a folder without {_REPORT}, expected one made by `hf-elmo prepare`")
        report = json.loads((folder / _REPORT).read_text(encoding="utf-8"))
        if report.get("layout_version") != LAYOUT_VERSION:
            raise ValueError(
                f"{folder}: got layout version {report.get('layout_version')}, expected {LAYOUT_VERSION}; "
                "prepare it again"
            )
        missing = [name for name in [_WORDS, _COUNTS, *_all_files(report)] if not (folder / name).is_file()]
        if missing:
            raise FileNotFoundError(
                f"{folder}: got no {', '.join(missing[:3])}; copy the whole folder or prepare it again"
            )
        got = _digest(folder / _WORDS)
        if got != report["words_sha256"]:
            raise ValueError(
                f"{folder / _WORDS}: got a file with SHA-256 {got[:12]}…, expected "
                f"{report['words_sha256'][:12]}…, the one the shards were made with; "
                "restore it or prepare the corpus again"
            )
        return cls(folder, report)

    @cached_property
    def words(self) -> list[str]:
        """All distinct words; row r of the shards is ``words[r]``."""
        return read_vocabulary(self.path / _WORDS)

    @cached_property
    def counts(self) -> np.ndarray:
        """(words,) int64: occurrences in the training text; 0 for words of the held-out text alone."""
        with safe_open(self.path / _COUNTS, framework="numpy") as file:
            return file.get_tensor("counts")

    @property
    def vocab_size(self) -> int:
        """V as chosen at preparation: lines of the LM vocabulary, the three special words included."""
        return int(self.report["vocab_size"])

    @property
    def splits(self) -> list[str]:
        """Names of all splits."""
        return list(self.report["splits"])

    @property
    def heldout_splits(self) -> list[str]:
        """Names of the held-out splits."""
        return [name for name in self.splits if name.startswith(HELDOUT_PREFIX)]

    def vocabulary(self, vocab_size: int | None = None) -> list[str]:
        """The first `vocab_size` lines of words.txt (default: as chosen at preparation).

        Raises:
            ValueError: see `check_vocab_size`.
        """
        return self.words[: self.check_vocab_size(vocab_size)]

    def check_vocab_size(self, vocab_size: int | None = None) -> int:
        """`vocab_size` itself, or the one chosen at preparation for None.

        Raises:
            ValueError: no more than the special words, or more than there are words.
        """
        size = self.vocab_size if vocab_size is None else vocab_size
        if not len(SPECIAL_WORDS) < size <= int(self.report["distinct_words"]):
            raise ValueError(
                f"got vocab_size {size} (n_tokens_vocab of an options.json), expected {len(SPECIAL_WORDS) + 1} to "
                f"{self.report['distinct_words']}, the number of distinct words in {self.path}"
            )
        return size

    def split_report(self, split: str) -> dict[str, Any]:
        """The part of the report on one split.

        Raises:
            ValueError: no such split.
        """
        if split not in self.report["splits"]:
            raise ValueError(f"got split {split!r}, expected one of {', '.join(self.splits)} ({self.path})")
        return self.report["splits"][split]

    def shard_files(self, split: str) -> list[str]:
        """File names of a split's shards."""
        return list(self.split_report(split)["files"])

    def read_shard(self, file: str) -> Shard:
        """Reads one shard.

        Raises:
            ValueError: a damaged file.
        """
        shard = Shard(self._tensor(file, "words"), self._tensor(file, "offsets"))
        if len(shard.words) and int(shard.words.max()) >= self.report["distinct_words"]:
            raise ValueError(
                f"{self.path / file}: got row {shard.words.max()}, expected rows below "
                f"{self.report['distinct_words']}; the shard belongs to another words.txt"
            )
        return shard

    def sentence_lengths(self, file: str) -> np.ndarray:
        """(sentences,) words of each sentence of a shard, without boundaries; its words are not read.

        Raises:
            ValueError: a damaged file.
        """
        return np.diff(self._tensor(file, "offsets"))

    def _tensor(self, file: str, name: str) -> np.ndarray:
        try:
            with safe_open(self.path / file, framework="numpy") as tensors:
                return tensors.get_tensor(name)
        except SafetensorError as error:
            raise ValueError(
                f"{self.path / file}: cannot be read as a shard: {error}; prepare the corpus again"
            ) from error

    def read_split(self, split: str) -> Iterator[Shard]:
        """The shards of a split, one after the other."""
        return (self.read_shard(file) for file in self.shard_files(split))


class ShardWriter:
    """Writes the shards of one split, each of about `shard_words` words.

    A shard is closed with the batch of sentences that fills it, so that memory holds one shard at a time.
    """

    def __init__(self, folder: Path, split: str, *, shard_words: int) -> None:
        if shard_words < 1:
            raise ValueError(f"got shard_words={shard_words}, expected at least 1")
        self.folder = folder
        self.split = split
        self.shard_words = shard_words
        self.files: list[str] = []
        self._words: list[np.ndarray] = []
        self._lengths: list[np.ndarray] = []
        self._waiting = 0

    def add(self, words: np.ndarray, lengths: np.ndarray) -> None:
        """Adds sentences: `words` (n,) rows of the table, `lengths` (sentences,) summing to n."""
        self._words.append(words.astype(np.int32, copy=False))
        self._lengths.append(lengths.astype(np.int64, copy=False))
        self._waiting += len(words)
        if self._waiting >= self.shard_words:
            self.flush()

    def flush(self) -> None:
        """Writes what is waiting."""
        if not self._waiting:
            return
        file = f"{self.split}-{len(self.files):05d}.safetensors"
        lengths = np.concatenate(self._lengths)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        tensors = {"words": np.concatenate(self._words), "offsets": offsets}
        (self.folder / file).write_bytes(save(tensors))
        self.files.append(file)
        self._words, self._lengths, self._waiting = [], [], 0


def write_tables(folder: Path, *, words: Sequence[str], counts: np.ndarray, report: dict[str, Any]) -> None:
    """Writes words.txt, counts, vocab.txt and the report; `report` gets the checksum of the word table."""
    write_vocabulary(words, folder / _WORDS)
    write_vocabulary(words[: report["vocab_size"]], folder / "vocab.txt")
    (folder / _COUNTS).write_bytes(save({"counts": counts.astype(np.int64)}))
    report["words_sha256"] = _digest(folder / _WORDS)
    (folder / _REPORT).write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def written_beside(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A folder to prepare into, which becomes `path` when complete; `overwrite` replaces a prepared folder only.

    Raises:
        FileExistsError: `path` is there already (with `overwrite`: and is not a prepared folder).
    """
    with new_folder(path, replace_if=lambda there: overwrite and (there / _REPORT).is_file()) as folder:
        yield folder


def _all_files(report: dict[str, Any]) -> list[str]:
    return [file for split in report["splits"].values() for file in split["files"]]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
