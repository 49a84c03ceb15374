"""How a run reads text: as continuous streams or as whole sentences, to train on it and to evaluate on it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Literal

from transformers import TrainingArguments

from hf_elmo.pretraining.batches import Batch
from hf_elmo.pretraining.sentence_batches import SentenceBatches
from hf_elmo.pretraining.shards import PreparedCorpus
from hf_elmo.pretraining.streams import HeldoutStreams, Shuffle, StreamBatches

TextAs = Literal["streams", "sentences"]


def training_text(
    prepared: PreparedCorpus,
    training: TrainingArguments,
    *,
    text_as: TextAs,
    unroll_steps: int,
    shuffle: Shuffle,
    vocab_size: int,
    max_characters_per_word: int,
) -> StreamBatches | SentenceBatches:
    """The training text without an end, or this process's share of it.

    Args:
        prepared: the corpus.
        training: batch size, seed and number of processes are read.
        text_as: "streams", B rows that go on from batch to batch, or "sentences", each by itself, as many as fit into
            the B · `unroll_steps` words of such a batch.
        unroll_steps: words of a row of streams.
        shuffle: of streams, see `StreamBatches`; sentences are read by both directions together.
        vocab_size: words of the softmax.
        max_characters_per_word: C.

    Raises:
        ValueError: sizes out of range, fewer sentences than processes.
    """
    batch_size = training.per_device_train_batch_size
    seed = training.data_seed if training.data_seed is not None else training.seed
    if text_as == "sentences":
        return SentenceBatches(
            prepared,
            words_per_batch=batch_size * unroll_steps,
            vocab_size=vocab_size,
            seed=seed,
            rank=training.process_index,
            world_size=training.world_size,
            max_characters_per_word=max_characters_per_word,
        )
    return StreamBatches(
        prepared,
        batch_size=batch_size,
        unroll_steps=unroll_steps,
        vocab_size=vocab_size,
        seed=seed,
        shuffle=shuffle,
        rank=training.process_index,
        world_size=training.world_size,
        max_characters_per_word=max_characters_per_word,
    )


def heldout_text(
    prepared: PreparedCorpus,
    split: str,
    *,
    text_as: TextAs,
    batch_size: int,
    unroll_steps: int,
    vocab_size: int,
    max_characters_per_word: int,
    num_tokens: int,
) -> Iterable[Batch]:
    """One pass over about `num_tokens` words of a held-out text, or over all of it for 0.

    Streams are cut off after that many words; of sentences, which come by length, as many batches of every length are
    left out.

    Args: as `training_text`.
    """
    batch_words = batch_size * unroll_steps
    if text_as == "sentences":
        report = prepared.split_report(split)
        share = min(report["sentences"], max(1, report["tokens"] // num_tokens)) if num_tokens else 1
        return SentenceBatches(
            prepared,
            split,
            words_per_batch=batch_words,
            vocab_size=vocab_size,
            endless=False,
            world_size=share,
            max_characters_per_word=max_characters_per_word,
        )
    streams = HeldoutStreams(
        prepared,
        split,
        batch_size=batch_size,
        unroll_steps=unroll_steps,
        vocab_size=vocab_size,
        max_characters_per_word=max_characters_per_word,
    )
    return itertools.islice(streams, max(1, num_tokens // batch_words) if num_tokens else None)
