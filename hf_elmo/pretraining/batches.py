"""What batches of streams and batches of sentences share.

Words travel as positions in a table of the batch's distinct words, so that the character CNN runs once for each.
A batch is a dictionary of numpy arrays, all int64 (N distinct words, C characters, B rows, T positions):

* ``distinct_character_ids`` (N, C): spelling of the distinct words;
* ``distinct_index`` (B, T): which of them the forward direction reads;
* ``labels`` (B, T): word ids (row of words.txt + 1; 3, ``<UNK>``, for words outside the vocabulary; -100 for none);
* ``backward_distinct_index``, ``backward_labels`` (B, T): the same for the backward direction, in its reading order
  (streams only).

Needs neither torch nor spaCy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hf_elmo.pretraining.shards import PreparedCorpus
from hf_elmo.pretraining.vocabulary import UNK_ROW, SpelledWords

Batch = dict[str, np.ndarray]
NO_LABEL = -100


class DistinctWords:
    """Turns rows of the word table into the parts of a batch: spelling of the distinct words, positions,
    labels.
    """

    def __init__(self, prepared: PreparedCorpus, *, vocab_size: int | None, max_characters_per_word: int) -> None:
        self.vocab_size = prepared.check_vocab_size(vocab_size)
        self.spelled = SpelledWords(prepared.words, max_characters_per_word=max_characters_per_word)

    def labels(self, rows: np.ndarray) -> np.ndarray:
        """Word ids of the same shape: shifted by one for the pad, ``<UNK>`` outside the vocabulary."""
        return np.where(rows < self.vocab_size, rows, UNK_ROW).astype(np.int64) + 1

    def distinct(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Character ids (N, C) of the distinct words, and the position of each of `rows` among them."""
        distinct, index = np.unique(rows, return_inverse=True)
        return self.spelled.character_ids(distinct), index.reshape(rows.shape).astype(np.int64)


def check_sizes(**sizes: int) -> None:
    """Every size is 1 or more, or ValueError."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"got {name}={size}, expected at least 1")


def check_rank(prepared: PreparedCorpus, split: str, rank: int, world_size: int) -> None:
    """The rank is one of `world_size`, and each has a sentence of the split, or ValueError."""
    if not 0 <= rank < world_size:
        raise ValueError(f"got rank={rank} of world_size={world_size}, expected 0 <= rank < world_size")
    sentences = int(prepared.split_report(split)["sentences"])
    if sentences < world_size:
        raise ValueError(
            f"got {sentences} sentences in {split!r} for {world_size} processes, expected at least one each"
        )


def check_identity(got: dict[str, Any], expected: dict[str, Any]) -> None:
    """A data state belongs to the settings it is to go on with, or ValueError."""
    differing = [name for name in expected if got.get(name) != expected[name]]
    if differing:
        parts = ", ".join(f"{name} {got.get(name)!r} (expected {expected[name]!r})" for name in differing)
        raise ValueError(f"got a data state with another {parts}; resume with the settings it was saved with")
