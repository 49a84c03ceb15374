import json
from collections import Counter
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.pretraining.sentence_batches import SentenceBatches
from tests.hf_elmo.pretraining.prepared_corpora import SENTENCES, equal, ids_of, prepare_sentences, spelling


class TestSentenceBatches:
    @pytest.mark.parametrize("endless", [True, False])
    @given(words_per_batch=st.integers(1, 40), vocab_size=st.integers(4, 40))
    def test_every_sentence_once_padded_and_labelled(self, prepared, endless, words_per_batch, vocab_size):
        options = {"words_per_batch": words_per_batch, "vocab_size": vocab_size, "endless": endless}
        got = []
        for batch in SentenceBatches(prepared, **options):
            self.check_batch(batch, prepared, words_per_batch, vocab_size)
            got += self.sentences_of_batch(batch, prepared)
            if endless and len(got) == len(SENTENCES):
                break
        assert Counter(map(tuple, got)) == Counter(map(tuple, SENTENCES))

    @staticmethod
    def sentences_of_batch(batch, prepared):
        spelled = spelling(tuple(prepared.words))
        ids = batch["distinct_character_ids"][batch["distinct_index"]]  # (B, T, C)
        words = [[spelled.get(tuple(word)) for word in row] for row in ids.tolist()]
        return [[word for word in row if word not in ("<S>", "</S>", None)] for row in words]

    def check_batch(self, batch, prepared, words_per_batch, vocab_size):
        B, T = batch["labels"].shape
        assert B == 1 or words_per_batch >= B * T
        assert not batch["distinct_character_ids"][0].any()
        for row, words in enumerate(self.sentences_of_batch(batch, prepared)):
            padding = T - len(words) - 2
            [ids] = ids_of([["<S>", *words, "</S>"]], prepared, vocab_size)
            assert batch["labels"][row].tolist() == ids + [-100] * padding
            assert batch["attention_mask"][row].tolist() == [1] * len(ids) + [0] * padding
            assert (batch["distinct_index"][row] > 0).tolist() == [True] * len(ids) + [False] * padding

    def test_epochs_differ_and_processes_share(self, prepared):
        def firsts(count, **options):
            batches = SentenceBatches(prepared, words_per_batch=20, **options)
            return [self.sentences_of_batch(batch, prepared) for batch in islice(batches, count)]

        per_epoch = len(firsts(1000, endless=False))
        two_epochs = firsts(2 * per_epoch)
        assert two_epochs[:per_epoch] != two_epochs[per_epoch:]
        shared = [
            sentence
            for rank in range(2)
            for batch in SentenceBatches(prepared, words_per_batch=20, endless=False, rank=rank, world_size=2)
            for sentence in self.sentences_of_batch(batch, prepared)
        ]
        assert Counter(map(tuple, shared)) == Counter(map(tuple, SENTENCES))

    @given(before=st.integers(0, 50))
    def test_resuming_goes_on_exactly(self, prepared, before):
        straight = SentenceBatches(prepared, words_per_batch=20, seed=3)
        going = iter(straight)
        for _ in range(before):
            next(going)
        resumed = SentenceBatches(prepared, words_per_batch=20, seed=3)
        resumed.load_state_dict(json.loads(json.dumps(straight.state_dict())))
        for one, other in zip(islice(going, 20), resumed, strict=False):
            assert equal(one, other)
        with pytest.raises(ValueError, match="seed 3"):
            SentenceBatches(prepared, words_per_batch=20).load_state_dict(straight.state_dict())

    @pytest.mark.parametrize("words_per_batch", [12, 60])
    def test_epochs_are_counted_in_batches(self, prepared, words_per_batch):
        batches = SentenceBatches(prepared, words_per_batch=words_per_batch, seed=2)
        one_pass = list(SentenceBatches(prepared, words_per_batch=words_per_batch, endless=False))
        assert batches.batches_per_epoch == len(one_pass)
        predictions = sum(int(batch["attention_mask"].sum()) - len(batch["labels"]) for batch in one_pass)
        assert batches.predictions_per_batch == predictions / len(one_pass)
        shared = SentenceBatches(prepared, words_per_batch=words_per_batch, world_size=2)
        assert shared.batches_per_epoch == len(one_pass) // 2
        read, epochs = iter(batches), [batches.epoch]
        for _ in range(2 * len(one_pass)):
            next(read)
            epochs.append(batches.epoch)
            again = SentenceBatches(prepared, words_per_batch=words_per_batch, seed=2)
            again.load_state_dict(batches.state_dict())
            assert again.epoch == batches.epoch
        assert epochs[0] == 0
        assert epochs[len(one_pass)] == pytest.approx(1)
        assert epochs[-1] == pytest.approx(2)
        assert all(later > earlier for earlier, later in pairwise(epochs))

    def test_a_process_that_would_wait_forever_is_told(self, prepared):
        batches = SentenceBatches(prepared, words_per_batch=10_000, rank=2, world_size=3)
        with pytest.raises(ValueError, match=r"no batch for process 2 of 3 in a whole epoch.*less than 10000 words"):
            next(iter(batches))

    def test_like_lengths_come_together(self, tmp_path):
        prepared = prepare_sentences(tmp_path, [["w"] * (1 + number % 20) for number in range(400)])
        masks = [batch["attention_mask"] for batch in SentenceBatches(prepared, words_per_batch=200, endless=False)]
        assert sum(mask.sum() for mask in masks) > 0.9 * sum(mask.size for mask in masks)
