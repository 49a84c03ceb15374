from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.dump.parts import split_into_parts

texts = st.lists(st.lists(st.text("ab", max_size=3), max_size=6), max_size=40)


@given(texts, st.integers(1, 20))
def test_parts_hold_every_sentence_once_in_order(sentences, words_per_part):
    parts = list(split_into_parts(sentences, bytes_per_word=8, bytes_per_part=8 * words_per_part))
    assert [words for part in parts for words in part.sentences] == sentences
    assert [part.number for part in parts] == list(range(len(parts)))
    first = 0
    for part in parts:
        assert part.first == first
        first += len(part.sentences)
        assert part.num_words <= words_per_part or len(part.sentences) == 1
    for part, following in pairwise(parts):  # no part ends before it must
        assert part.num_words + len(following.sentences[0]) > words_per_part


def test_sentences_and_characters_bound_a_part_too():
    def count(sentences):
        return [len(part.sentences) for part in split_into_parts(sentences, bytes_per_word=1, bytes_per_part=10**9)]

    assert count([[]] * 65_537) == [65_536, 1]
    assert count([["x" * 10_000_000]] * 3) == [1, 1, 1]
