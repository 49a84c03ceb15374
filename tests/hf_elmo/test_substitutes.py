import numpy as np
import pytest
import torch

from hf_elmo.substitutes import sentence_substitutes, substitutes
from tests.hf_elmo.language_models import SENTENCES, VOCABULARY, language_model, log_probabilities, rows

WORDS = SENTENCES[0]
LOG_FREQUENCIES = torch.linspace(-1, -9, len(VOCABULARY))


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return language_model(tmp_path_factory.mktemp("weights"))


def by_hand(model, words, index, prior):
    """Every word of the vocabulary with its score, best first."""
    forward, backward = log_probabilities(model, words)
    scores = forward[index + 1] + backward[index + 1] - prior
    candidates = [row for row in range(3, len(VOCABULARY)) if row not in rows([words[index]])]
    best = sorted(candidates, key=lambda row: -scores[row])
    return [(VOCABULARY[row], scores[row], forward[index + 1, row], backward[index + 1, row]) for row in best]


def by_rank(vocab_size):
    """The distribution from which the sampled softmax draws."""
    k = np.arange(vocab_size)
    return np.log((np.log(k + 2) - np.log(k + 1)) / np.log(vocab_size + 1))


@pytest.mark.parametrize(
    ("options", "prior"),
    [
        ({}, 0),
        ({"unigram_weight": 0.5}, 0.5 * by_rank(len(VOCABULARY))),
        ({"unigram_weight": 1.0, "log_frequencies": LOG_FREQUENCIES}, LOG_FREQUENCIES.numpy()),
    ],
)
def test_substitutes_are_numpys(lm, options, prior):
    for index in range(len(WORDS)):
        expected = by_hand(lm[0], WORDS, index, prior)
        found = substitutes(*lm, WORDS, index, top=5, **options)
        assert [substitute.word for substitute in found] == [word for word, *_ in expected[:5]]
        np.testing.assert_allclose(
            [substitute[1:] for substitute in found], [row[1:] for row in expected[:5]], atol=1e-5
        )


def test_all_there_are_are_fewer_than_asked_for(lm):
    found = substitutes(*lm, WORDS, 6, top=100)
    assert sorted(substitute.word for substitute in found) == sorted(set(VOCABULARY[3:]) - {"bark"})
    assert len(substitutes(*lm, WORDS, 2, top=100)) == len(VOCABULARY) - 3  # "let" is not in the vocabulary


def test_the_word_itself_is_not_read(lm):
    with_dog = substitutes(*lm, ["a", "dog", "."], 1, top=3)
    with_unknown = substitutes(*lm, ["a", "zebra", "."], 1, top=20)
    others = [substitute for substitute in with_unknown if substitute.word != "dog"][:3]
    assert [substitute.word for substitute in with_dog] == [substitute.word for substitute in others]
    np.testing.assert_allclose([row[1:] for row in with_dog], [row[1:] for row in others], atol=1e-5)


def test_many_words_of_one_sentence(lm):
    words = [VOCABULARY[3 + i % 8] for i in range(150)]
    found = sentence_substitutes(*lm, words, range(150), top=2)
    for index in (0, 63, 64, 149):
        assert [one.word for one in found[index]] == [one.word for one in substitutes(*lm, words, index, top=2)]
    assert sentence_substitutes(*lm, words, []) == []


@pytest.mark.parametrize("index", [-1, 8])
def test_no_such_word(lm, index):
    with pytest.raises(IndexError, match=f"index: got {index}; expected 0 to 7"):
        substitutes(*lm, WORDS, index)


def test_options_out_of_range(lm):
    with pytest.raises(ValueError, match="top: got 0; expected 1 or more"):
        substitutes(*lm, WORDS, 0, top=0)
    with pytest.raises(ValueError, match=r"log_frequencies: got shape \(3,\); expected \(11,\)"):
        substitutes(*lm, WORDS, 0, log_frequencies=torch.zeros(3))
    with pytest.raises(ValueError, match=r"word 1 is '\\ud800'"):
        substitutes(*lm, ["a", "\ud800"], 0)
    with pytest.raises(TypeError, match="expected a list of words"):
        substitutes(*lm, "a b", 0)
    model, tokenizer = lm
    model.train()
    try:
        with pytest.raises(ValueError, match="in training mode"):
            substitutes(model, tokenizer, WORDS, 0)
    finally:
        model.eval()
