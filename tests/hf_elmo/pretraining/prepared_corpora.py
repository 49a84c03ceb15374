"""Small prepared corpora for the tests of what reads them."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from hf_elmo.pretraining.corpus import Source
from hf_elmo.pretraining.prepare import prepare
from hf_elmo.pretraining.prepare_options import PrepareOptions
from hf_elmo.pretraining.shards import PreparedCorpus
from tests.oracles.numpy_elmo import word_to_ids

Sentences = Sequence[Sequence[str]]

SENTENCES = [[f"w{number}"] + [f"v{number % 7}"] * (number % 5) for number in range(40)]
HELDOUT = [[f"h{number}"] + ["v1"] * (number % 4) for number in range(17)]


def prepare_sentences(
    folder: Path, train: Sentences, heldout: Mapping[str, Sentences] | None = None, **options
) -> PreparedCorpus:
    """Prepares tokenised sentences as `folder`/prepared."""
    sources = {"train": train, **(heldout or {})}
    for name, sentences in sources.items():
        (folder / f"{name}.txt").write_text("".join(" ".join(words) + "\n" for words in sentences), encoding="utf-8")
    return prepare(
        [Source("train", str(folder / "train.txt"), "sentences")],
        folder / "prepared",
        heldout=[Source(name, str(folder / f"{name}.txt"), "sentences") for name in heldout or {}],
        options=PrepareOptions(**options),
    )


def sentences_of(prepared: PreparedCorpus, split: str) -> list[list[str]]:
    """The words of a split, spelled."""
    return [
        [prepared.words[row] for row in shard.words[begin:end]]
        for shard in prepared.read_split(split)
        for begin, end in zip(shard.offsets, shard.offsets[1:], strict=False)
    ]


@cache
def spelling(words):
    return {tuple(word_to_ids(word)): word for word in words}


def ids_of(words, prepared, vocab_size):
    rows = {word: row for row, word in enumerate(prepared.words)}
    return [[rows[word] + 1 if rows[word] < vocab_size else 3 for word in line] for line in words]


def equal(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
