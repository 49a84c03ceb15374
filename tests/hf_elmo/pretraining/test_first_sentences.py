import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.pretraining.corpus_with_vocabulary import with_vocabulary
from hf_elmo.pretraining.first_sentences import first_sentences
from tests.hf_elmo.pretraining.prepared_corpora import HELDOUT, sentences_of

SPLITS = st.sampled_from(["train", "heldout-h"])


@given(num_words=st.integers(1, 200), split=SPLITS)
def test_as_few_whole_sentences_as_have_the_words(prepared, num_words, split):
    whole = sentences_of(prepared, split)
    kept = []
    while sum(map(len, kept)) < num_words and len(kept) < len(whole):
        kept.append(whole[len(kept)])
    part = first_sentences(prepared, split, num_words)
    assert sentences_of(part, split) == kept
    report = part.split_report(split)
    assert (report["tokens"], report["sentences"]) == (sum(map(len, kept)), len(kept))
    assert report["predictions_per_direction"] == sum(len(words) + 1 for words in kept)


@given(num_words=st.integers(1, 60))
def test_unknown_words_of_the_part(prepared, num_words):
    vocabulary = ["<S>", "</S>", "<UNK>", "v1"]
    part = first_sentences(with_vocabulary(prepared, vocabulary), "heldout-h", num_words)
    words = [word for sentence in sentences_of(part, "heldout-h") for word in sentence]
    assert part.split_report("heldout-h")["oov_tokens"] == sum(word != "v1" for word in words)


@given(split=SPLITS)
def test_none_is_all(prepared, split):
    whole = first_sentences(prepared, split, None)
    assert sentences_of(whole, split) == sentences_of(prepared, split)
    assert whole.split_report(split) == prepared.split_report(split)
    assert whole.splits == [split]


def test_what_cannot_be_asked_for(prepared):
    assert len(sentences_of(prepared, "heldout-h")) == len(HELDOUT)
    with pytest.raises(ValueError, match="got 0 words"):
        first_sentences(prepared, "heldout-h", 0)
    with pytest.raises(ValueError, match="got split 'heldout-x'"):
        first_sentences(prepared, "heldout-x", 3)
