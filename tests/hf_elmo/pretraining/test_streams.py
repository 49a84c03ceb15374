import json
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.pretraining.streams import HeldoutStreams, StreamBatches
from tests.hf_elmo.pretraining.prepared_corpora import (
    HELDOUT,
    SENTENCES,
    equal,
    ids_of,
    prepare_sentences,
    sentences_of,
    spelling,
)

BOUNDARIES = {"forward": ("<S>", "</S>"), "backward": ("</S>", "<S>")}
PREFIX = {"forward": "", "backward": "backward_"}


def naive_batches(sentences, batch_size, steps, direction):
    """The reference's reader taken literally: a row takes the next sentence when one id or less is left of the
    last.
    """
    first, last = BOUNDARIES[direction]
    following = iter(sentences)
    rows = [[] for _ in range(batch_size)]
    while True:
        inputs, targets = [], []
        for row in range(batch_size):
            read, predicted = [], []
            for _ in range(steps):
                if len(rows[row]) <= 1:
                    words = next(following, None)
                    if words is None:
                        return
                    rows[row] = [first, *(words if direction == "forward" else reversed(words)), last]
                read.append(rows[row].pop(0))
                predicted.append(rows[row][0])
            inputs.append(read)
            targets.append(predicted)
        yield inputs, targets


def inputs_of(batch, prepared, direction="forward"):
    """The words a direction reads, from their spelling."""
    spelled = spelling(tuple(prepared.words))
    distinct = [spelled[tuple(row)] for row in batch["distinct_character_ids"].tolist()]
    assert len(set(distinct)) == len(distinct)
    index = batch[f"{PREFIX[direction]}distinct_index"]
    return [[distinct[place] for place in row] for row in index.tolist()]


def order_read(prepared, direction, count, **options):
    """The first `count` sentences in the order in which one row reads them."""
    sentences, words = [], None
    for batch in StreamBatches(prepared, batch_size=1, unroll_steps=1, **options):
        [[word]] = inputs_of(batch, prepared, direction)
        if word == BOUNDARIES[direction][0]:
            if words is not None:
                sentences.append(words if direction == "forward" else words[::-1])
            words = []
        else:
            words.append(word)
        if len(sentences) == count:
            return sentences
    raise AssertionError("the stream ended")


class TestStreamBatches:
    def test_several_shards_are_tested(self, prepared):
        assert len(prepared.shard_files("train")) >= 3

    @pytest.mark.parametrize("direction", ["forward", "backward"])
    @given(
        shape=st.tuples(st.integers(1, 7), st.integers(1, 9)),
        vocab_size=st.integers(4, 40),
        world=st.integers(1, 3),
    )
    def test_equals_the_specification_read_literally(self, prepared, direction, shape, vocab_size, world):
        batch_size, steps = shape
        options = {"seed": world, "rank": world - 1, "world_size": world}
        order = order_read(prepared, direction, 60, **options)
        expected = list(naive_batches(order, batch_size, steps, direction))
        streams = StreamBatches(prepared, batch_size=batch_size, unroll_steps=steps, vocab_size=vocab_size, **options)
        for batch, (inputs, targets) in zip(streams, expected, strict=False):
            assert inputs_of(batch, prepared, direction) == inputs
            assert batch[f"{PREFIX[direction]}labels"].tolist() == ids_of(targets, prepared, vocab_size)

    @pytest.mark.parametrize("direction", ["forward", "backward"])
    def test_every_epoch_reads_every_sentence_once_in_another_order(self, prepared, direction):
        size = len(SENTENCES)
        order = order_read(prepared, direction, 3 * size)
        epochs = [order[begin : begin + size] for begin in range(0, 3 * size, size)]
        everything = Counter(map(tuple, SENTENCES))
        assert all(Counter(map(tuple, epoch)) == everything for epoch in epochs)
        assert epochs[0] != epochs[1] != epochs[2]
        assert epochs[0] != SENTENCES

    def test_a_shard_is_read_whole_before_the_next_and_shuffled(self, prepared):
        shards = []
        for shard in prepared.read_split("train"):
            first_words = shard.words[shard.offsets[:-1]]
            shards.append([prepared.words[row] for row in first_words])
        order = [words[0] for words in order_read(prepared, "forward", len(SENTENCES))]
        seen = []
        while order:
            [shard] = [shard for shard in shards if order[0] in shard]
            part, order = order[: len(shard)], order[len(shard) :]
            assert sorted(part) == sorted(shard)
            assert part != shard
            seen.append(shards.index(shard))
        assert sorted(seen) == list(range(len(shards)))

    def test_directions_are_independent_or_together(self, prepared):
        for shuffle, same in (("independent", False), ("together", True)):
            forward, backward = (
                order_read(prepared, direction, 30, shuffle=shuffle) for direction in ("forward", "backward")
            )
            assert (forward == backward) is same

    def test_seed_decides(self, prepared):
        orders = [order_read(prepared, "forward", 30, seed=seed) for seed in (1, 1, 2)]
        assert orders[0] == orders[1] != orders[2]

    @pytest.mark.parametrize("direction", ["forward", "backward"])
    def test_processes_share_the_sentences_of_an_epoch(self, prepared, direction):
        world = 3
        together = Counter()
        for rank in range(world):
            alone = [
                shard.sentences // world + (rank < shard.sentences % world) for shard in prepared.read_split("train")
            ]
            together.update(map(tuple, order_read(prepared, direction, sum(alone), rank=rank, world_size=world)))
        assert together == Counter(map(tuple, SENTENCES))

    @given(
        before=st.integers(0, 60),
        steps=st.integers(1, 6),
        shuffle=st.sampled_from(["independent", "together"]),
    )
    def test_resuming_goes_on_exactly(self, prepared, before, steps, shuffle):
        def streams():
            return StreamBatches(prepared, batch_size=3, unroll_steps=steps, shuffle=shuffle, seed=5)

        straight = streams()
        for _ in range(before):
            next(straight)
        state = json.loads(json.dumps(straight.state_dict()))
        resumed = streams()
        resumed.load_state_dict(state)
        assert resumed.batches == before
        assert resumed.epoch == straight.epoch
        for _ in range(30):
            assert equal(next(straight), next(resumed))

    def test_resuming_with_other_settings_is_refused(self, prepared):
        state = StreamBatches(prepared, batch_size=3, unroll_steps=2).state_dict()
        with pytest.raises(ValueError, match=r"batch_size 3 \(expected 4\), seed 0 \(expected 1\)"):
            StreamBatches(prepared, batch_size=4, unroll_steps=2, seed=1).load_state_dict(state)

    def test_epochs_are_counted(self, prepared):
        streams = StreamBatches(prepared, batch_size=1, unroll_steps=1)
        assert streams.epoch == 0
        assert streams.batches_per_epoch == sum(len(words) + 1 for words in SENTENCES)
        progress = []
        for _ in range(streams.batches_per_epoch):
            next(streams)
            progress.append(streams.epoch)
        assert progress == sorted(progress)
        assert progress[-1] == pytest.approx(1.0)
        assert streams.batches == streams.batches_per_epoch

    @pytest.mark.parametrize(
        "options",
        [
            {"batch_size": 0},
            {"unroll_steps": 0},
            {"rank": 1},
            {"world_size": 1000},
            {"shuffle": "no"},
            {"split": "no"},
            {"vocab_size": 3},
        ],
    )
    def test_options_out_of_range(self, prepared, options):
        with pytest.raises(ValueError, match="expected"):
            StreamBatches(prepared, **{"batch_size": 2, "unroll_steps": 2, **options})


class TestHeldoutStreams:
    @pytest.mark.parametrize("direction", ["forward", "backward"])
    @given(batch_size=st.integers(1, 30), steps=st.integers(1, 12))
    def test_begins_like_the_specification_and_predicts_every_word_once(self, prepared, direction, batch_size, steps):
        streams = HeldoutStreams(prepared, "heldout-h", batch_size=batch_size, unroll_steps=steps)
        batches = list(streams)
        labels = f"{PREFIX[direction]}labels"
        for batch, (inputs, targets) in zip(
            batches, naive_batches(HELDOUT, batch_size, steps, direction), strict=False
        ):
            assert inputs_of(batch, prepared, direction) == inputs
            assert batch[labels].tolist() == ids_of(targets, prepared, prepared.vocab_size)
        last = BOUNDARIES[direction][1]
        expected = Counter()
        for line in ids_of([[*words, last] for words in HELDOUT], prepared, prepared.vocab_size):
            expected.update(line)
        got = Counter(np.concatenate([batch[labels].ravel() for batch in batches]).tolist())
        del got[-100]
        assert got == expected
        assert got.total() == prepared.split_report("heldout-h")["predictions_per_direction"]

    def test_a_row_that_is_done_stays_done(self, prepared):
        batches = list(HeldoutStreams(prepared, "heldout-h", batch_size=5, unroll_steps=4))
        for labels in ("labels", "backward_labels"):
            whole = np.concatenate([batch[labels] for batch in batches], axis=1)
            for row in whole < 0:
                assert not row[: int((~row).sum())].any()

    def test_every_pass_is_the_same(self, prepared):
        streams = HeldoutStreams(prepared, "heldout-h", batch_size=4, unroll_steps=3)
        for one, other in zip(streams, streams, strict=True):
            assert equal(one, other)


def test_streams_of_one_sentence_a_corpus(tmp_path):
    prepared = prepare_sentences(tmp_path, [["a", "b"]])
    batches = islice(StreamBatches(prepared, batch_size=2, unroll_steps=4), 5)
    assert [inputs_of(batch, prepared)[0] for batch in batches][:2] == [
        ["<S>", "a", "b", "<S>"],
        ["a", "b", "<S>", "a"],
    ]
    assert sentences_of(prepared, "train") == [["a", "b"]]
