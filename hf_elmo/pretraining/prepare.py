"""From text to a prepared folder, in two passes and bounded memory.

First pass: documents are cut into chunks of paragraphs, a pool of processes tokenises them, and the words
come back as numbers in the order in which the words were first seen; these go to a spool file on disk while
the words are counted. Second pass: with the final order of the word table known, the chunks of the spool are
renumbered and written as shards, in random order for training, so that every shard is a mixture of all
sources.

Memory holds the table of distinct words, a few chunks for each process, and one shard; never the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from hf_elmo.pretraining.chunks import read_chunks, tokenised_chunks
from hf_elmo.pretraining.corpus import DATASET_PREFIX, Source, find_files, source_bytes
from hf_elmo.pretraining.first_pass import FirstPass, SplitTotals
from hf_elmo.pretraining.prepare_options import PrepareOptions
from hf_elmo.pretraining.prepare_report import split_report, tokeniser_description
from hf_elmo.pretraining.shards import (
    HELDOUT_PREFIX,
    LAYOUT_VERSION,
    TRAIN,
    PreparedCorpus,
    ShardWriter,
    write_tables,
    written_beside,
)
from hf_elmo.pretraining.vocabulary import order_by_frequency, vocabulary_size_for
from hf_elmo.text_progress import Progress
from hf_elmo.vocabulary_file import SPECIAL_WORDS, read_vocabulary


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
        chunks = read_chunks(train, heldout, options)
        for chunk, tokenised in tokenised_chunks(chunks, options):
            first.add(chunk, tokenised)
            if progress is not None:
                share = min(1.0, chunk.bytes_read / bytes_total) if bytes_total else None
                progress(Progress(first.words_seen, share))
        first.close()
        _check_splits(first.splits, train, heldout, options)
        _write_second_pass(folder, first, given, options)
    return PreparedCorpus.open(out)


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
        splits[name] = split_report(split, _padded(split.counts, size)[provisional], is_cut, vocab_size)
        splits[name]["files"] = files
    report = {
        "layout_version": LAYOUT_VERSION,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "tokeniser": tokeniser_description(first.kinds, options),
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


def _padded(counts: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([counts, np.zeros(max(0, size - len(counts)), np.int64)])[:size]
