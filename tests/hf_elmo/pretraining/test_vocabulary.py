import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.pretraining.vocabulary import (
    SpelledWords,
    order_by_frequency,
    vocabulary_size_for,
)
from tests.oracles.numpy_elmo import word_to_ids

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def test_order_is_by_falling_count_then_by_letters():
    assert order_by_frequency({"b": 2, "a": 2, "<S>": 9, "z": 5, "c": 0}) == [
        "<S>",
        "</S>",
        "<UNK>",
        "z",
        "a",
        "b",
        "c",
    ]


def test_a_given_vocabulary_stays_in_front():
    given_words = ["<S>", "</S>", "<UNK>", "rare"]
    assert order_by_frequency({"often": 9, "rare": 0}, first=given_words) == [*given_words, "often"]


class TestSize:
    counts = np.array([0, 0, 0, 9, 5, 5, 1, 0, 0])

    def test_words_never_seen_in_training_are_left_out(self):
        assert vocabulary_size_for(self.counts) == 7
        assert vocabulary_size_for(self.counts, vocab_size=100) == 7

    def test_limits(self):
        assert vocabulary_size_for(self.counts, vocab_size=5) == 5
        assert vocabulary_size_for(self.counts, min_count=5) == 6

    @pytest.mark.parametrize("limits", [{"vocab_size": 5, "min_count": 2}, {"vocab_size": 3}, {"min_count": 10}])
    def test_impossible_limits(self, limits):
        with pytest.raises(ValueError, match="expected"):
            vocabulary_size_for(self.counts, **limits)


class TestSpelledWords:
    @given(words=st.lists(WORDS, min_size=1, max_size=12), data=st.data(), C=st.sampled_from([50, 12, 5]))
    def test_equals_spelling_one_by_one(self, words, data, C):
        words = ["<S>", "</S>", "<UNK>", *words]
        rows = np.array(data.draw(st.lists(st.integers(0, len(words) - 1), min_size=1, max_size=20)))
        expected = [word_to_ids(words[row], C) for row in rows]
        spelled = SpelledWords(words, max_characters_per_word=C)
        np.testing.assert_array_equal(spelled.character_ids(rows), expected)

    def test_cut_in_the_middle_of_a_character(self):
        words = ["x" * 47 + "é", "ж" * 40]
        rows = SpelledWords(words).character_ids(np.arange(2))
        np.testing.assert_array_equal(rows, [word_to_ids(word, 50) for word in words])
        assert rows.dtype == np.int64
