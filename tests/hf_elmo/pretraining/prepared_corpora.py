"""Small prepared corpora for the tests of what reads them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from hf_elmo.pretraining.corpus import Source
from hf_elmo.pretraining.prepare import PrepareOptions, prepare
from hf_elmo.pretraining.shards import PreparedCorpus

Sentences = Sequence[Sequence[str]]


def prepare_sentences(
    folder: Path, train: Sentences, heldout: Mapping[str, Sentences] | None = None, **options
) -> PreparedCorpus:
    """Prepares tokenised sentences as `folder`/prepared."""
    sources = {"train": train, **(heldout or {})}
    for name, sentences in sources.items():
        (folder / f"{name}.txt").write_text(
            "".join(" ".join(words) + "\n" for words in sentences), encoding="utf-8"
        )
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
