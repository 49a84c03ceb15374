import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hf_elmo import character_ids
from hf_elmo.character_ids import is_cut, word_to_character_ids, words_to_character_ids
from tests.oracles.numpy_elmo import word_to_ids

ODD_WORDS = [
    "",
    " ",
    "a b",
    "\0",
    "\n",
    "<S>",
    "</S>",
    "<UNK>",
    "<pad>",
    "<s>",
    "New-York",
    "e\u0301",  # combining accent
    "\u200b",  # zero width space
    "\ufeff",
    "👩‍👩‍👧‍👦",  # four people joined by zero width joiners
    "𝔘𝔫𝔦",  # astral letters
    "я" * 23,
    "я" * 24,
    "я" * 25,
    "漢" * 16,
    "漢" * 17,
    "a" * 47,
    "a" * 48,
    "a" * 49,
    "a" * 10_000,
    "a" * 47 + "é",  # cut in the middle of a character
]
words = st.one_of(
    st.sampled_from(ODD_WORDS),
    st.text(max_size=60),
    st.text(alphabet="aяé漢😀\0", min_size=10, max_size=80),
)
words_with_surrogates = st.text(alphabet=st.characters(exclude_categories=()), max_size=20)
row_lengths = st.integers(3, 70)


@given(st.lists(words, max_size=8), row_lengths)
@example(ODD_WORDS, 50)
@example(ODD_WORDS + ODD_WORDS, 3)
@example([], 50)
def test_every_row_is_the_oracles(sentence, length):
    rows = words_to_character_ids(sentence, max_characters_per_word=length)
    assert rows.dtype == np.int64
    assert rows.shape == (len(sentence), length)
    expected = [word_to_ids(word, length) for word in sentence]
    assert rows.tolist() == expected
    assert [word_to_character_ids(word, max_characters_per_word=length) for word in sentence] == expected


def test_published_rows():
    # ELMo's own example of a word: "cat", and a boundary, shifted by one.
    assert word_to_character_ids("cat", max_characters_per_word=7) == [259, 100, 98, 117, 260, 261, 261]
    assert word_to_character_ids("<S>", max_characters_per_word=4) == [259, 257, 260, 261]
    assert word_to_character_ids("</S>", max_characters_per_word=4) == [259, 258, 260, 261]
    assert word_to_character_ids("\u00ff", max_characters_per_word=4) == [259, 0xC3 + 1, 0xBF + 1, 260]


def test_the_highest_byte_does_not_wrap():
    # No UTF-8 byte is 255, but 0xF4 is the highest one that occurs.
    assert word_to_character_ids("\U0010ffff", max_characters_per_word=6)[1:5] == [0xF5, 0x90, 0xC0, 0xC0]


def test_constants_are_those_of_the_contract():
    names = ("BEGIN_SENTENCE", "END_SENTENCE", "BEGIN_WORD", "END_WORD", "PAD_CHARACTER")
    assert [getattr(character_ids, name) for name in names] == [257, 258, 259, 260, 261]


@given(st.lists(words_with_surrogates, max_size=5), row_lengths)
@example(["a\ud800b", "\udfff", "fine"], 50)
def test_surrogates_vanish_when_dropped(sentence, length):
    rows = words_to_character_ids(sentence, max_characters_per_word=length, surrogates="drop")
    assert rows.tolist() == [word_to_ids(word, length) for word in sentence]


@given(st.lists(words_with_surrogates, max_size=5))
@example(["ok", "\ud83d", "\ude00"])  # two halves of one character are still two broken words
def test_the_first_surrogate_is_named(sentence):
    lone = [re.search("[\ud800-\udfff]", word) for word in sentence]
    if not any(lone):
        assert len(words_to_character_ids(sentence)) == len(sentence)
        return
    first = next(index for index, found in enumerate(lone) if found)
    with pytest.raises(ValueError, match=rf"word {first} is .* lone surrogate at position {lone[first].start()}"):
        words_to_character_ids(sentence)


@pytest.mark.parametrize("bad", [None, 3, 2.5, b"bytes", ["a"], {"a": 1}])
def test_what_is_no_string_is_named(bad):
    with pytest.raises(TypeError, match=re.escape(f"word 2 is {bad!r} ({type(bad).__name__})")):
        words_to_character_ids(["a", "b", bad, "c"])
    with pytest.raises(TypeError, match="word 0 is"):
        word_to_character_ids(bad)


def test_a_wrong_type_is_named_though_an_earlier_word_had_a_dropped_surrogate():
    with pytest.raises(TypeError, match="word 1 is 7"):
        words_to_character_ids(["\ud800", 7], surrogates="drop")


def test_a_long_bad_word_is_shown_in_short():
    with pytest.raises(ValueError, match=r"\(10003 characters\)") as caught:
        words_to_character_ids(["a" * 9995 + "\ud800"])
    assert len(str(caught.value)) < 300


def test_a_single_string_is_not_taken_for_its_letters():
    with pytest.raises(TypeError, match="put it in a list"):
        words_to_character_ids("word")


def test_an_unknown_way_with_surrogates_is_refused():
    with pytest.raises(ValueError, match="'replace'"):
        words_to_character_ids(["a"], surrogates="replace")


@pytest.mark.parametrize("bad", [2, 0, -1])
def test_a_row_needs_room_for_a_byte(bad):
    with pytest.raises(ValueError, match=f"at least 3 .* got {bad}"):
        words_to_character_ids(["a"], max_characters_per_word=bad)


@pytest.mark.parametrize("bad", [50.0, "50", True, None])
def test_the_row_length_is_an_integer(bad):
    with pytest.raises(TypeError, match=re.escape(f"got {bad!r}")):
        words_to_character_ids(["a"], max_characters_per_word=bad)


@given(words, row_lengths)
@example("я" * 24, 50)
@example("я" * 25, 50)
@example("<S>", 3)
def test_a_word_is_cut_when_a_longer_row_would_hold_more_of_it(word, length):
    def spelled(row):
        return [character for character in row if character <= character_ids.END_SENTENCE]

    longer = spelled(word_to_ids(word, len(word.encode()) + 3))
    assert is_cut(word, max_characters_per_word=length) == (spelled(word_to_ids(word, length)) != longer)


def test_generators_and_tuples_are_words_too():
    expected = words_to_character_ids(["a", "b", "a"])
    assert np.array_equal(words_to_character_ids(iter("aba")), expected)
    assert np.array_equal(words_to_character_ids(("a", "b", "a")), expected)


def test_rows_of_equal_words_are_independent():
    rows = words_to_character_ids(["a", "a"])
    rows[0] = 0
    assert rows[1].tolist() == word_to_ids("a")


def test_is_cut_names_what_is_no_word():
    with pytest.raises(TypeError, match=r"\['a'\] \(list\)"):
        is_cut(["a"])
