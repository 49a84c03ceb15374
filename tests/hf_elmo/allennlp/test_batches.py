import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.allennlp import batch_to_ids
from tests.hf_elmo.models import WORDS
from tests.oracles import numpy_elmo

# Long and odd words from a list: drawn letter by letter they would be most of the test's time.
words = st.sampled_from([*WORDS, "", "é" * 40, "\x00"]) | st.text(max_size=3)
batches = st.lists(st.lists(words, max_size=6), min_size=1, max_size=5)


@given(batch=batches)
def test_every_word_is_spelled_in_its_place_and_the_rest_is_zero(batch: list[list[str]]) -> None:
    ids = batch_to_ids(batch)
    assert ids.dtype == torch.int64
    assert ids.shape == (len(batch), max(map(len, batch)), 50)
    for row, sentence in zip(ids, batch, strict=True):
        assert row[: len(sentence)].tolist() == [numpy_elmo.word_to_ids(word) for word in sentence]
        assert not row[len(sentence) :].any()


def test_lone_surrogates_are_left_out() -> None:
    assert torch.equal(batch_to_ids([["a\ud800b"]]), batch_to_ids([["ab"]]))


def test_rows_of_another_length() -> None:
    ids = batch_to_ids([["word"]], max_characters_per_word=12)
    assert ids[0, 0].tolist() == numpy_elmo.word_to_ids("word", 12)


def test_no_sentence_at_all() -> None:
    assert batch_to_ids([]).shape == (0, 0, 50)


@pytest.mark.parametrize("batch", ["a sentence", ["a sentence", "another"], [["a", 3]], [["a", None]]])
def test_what_is_no_batch_of_words_is_refused(batch: object) -> None:
    with pytest.raises(TypeError, match="sentence"):
        batch_to_ids(batch)
