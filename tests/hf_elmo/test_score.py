import math

import numpy as np
import pytest
import torch

from hf_elmo.language_model import load_language_model
from hf_elmo.perplexity import perplexity
from hf_elmo.score import Totals, score
from tests.hf_elmo.language_models import SENTENCES, VOCABULARY, language_model, log_probabilities, rows
from tests.hf_elmo.models import random_lm, random_model
from tests.oracles.numpy_elmo import word_to_ids


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return language_model(tmp_path_factory.mktemp("weights"))


@pytest.mark.parametrize("max_words_per_batch", [1, 12, 4096])
def test_log_probabilities_are_numpys(lm, max_words_per_batch):
    scores = list(score(*lm, SENTENCES, max_words_per_batch=max_words_per_batch))
    assert [result.words for result in scores] == SENTENCES
    for result, words in zip(scores, SENTENCES, strict=True):
        assert result.is_known == [word in VOCABULARY[:2] + VOCABULARY[3:] for word in words]
        if not words:
            assert (result.forward_sum, result.backward_sum, result.predictions) == (0, 0, 0)
            assert result.forward_perplexity is result.backward_perplexity is None
            continue
        forward, backward = log_probabilities(lm[0], words)
        places = np.arange(len(words)) + 1
        np.testing.assert_allclose(result.forward, forward[places, rows(words)], atol=1e-5)
        np.testing.assert_allclose(result.backward, backward[places, rows(words)], atol=1e-5)
        assert result.end == pytest.approx(forward[-1, 1], abs=1e-5)  # </S>
        assert result.begin == pytest.approx(backward[0, 0], abs=1e-5)  # <S>
        assert result.forward_sum == pytest.approx(sum(result.forward) + result.end, abs=1e-9)
        assert result.backward_sum == pytest.approx(sum(result.backward) + result.begin, abs=1e-9)
        predictions = len(words) + 1
        assert result.predictions == predictions
        assert result.forward_perplexity == pytest.approx(math.exp(-result.forward_sum / predictions))
        assert result.backward_perplexity == pytest.approx(math.exp(-result.backward_sum / predictions))


def test_totals_are_the_perplexity(lm):
    """hf_elmo.perplexity reads the same sentences as streams of one sentence each."""
    model, _ = lm
    batches = []
    for words in filter(None, SENTENCES):
        ids = [1, *(row + 1 for row in rows(words)), 2]
        spelled = torch.tensor([[word_to_ids(word) for word in ("<S>", *words, "</S>")]])
        batches.append(
            {
                "character_ids": spelled[:, :-1],
                "labels": torch.tensor([ids[1:]]),
                "backward_character_ids": spelled.flip(1)[:, :-1],
                "backward_labels": torch.tensor([ids[::-1][1:]]),
            }
        )
    expected = perplexity(model, batches, carry=False)
    totals = Totals()
    for result in score(*lm, SENTENCES):
        totals.add(result)
    assert totals.perplexity == pytest.approx(expected, rel=1e-6)
    assert (totals.sentences, totals.words, totals.unknown_words) == (5, 18, 7)
    assert totals.predictions == 18 + 4


def test_the_warm_state_is_where_a_sentence_starts(lm):
    from copy import deepcopy

    from hf_elmo.initial_state import InitialState

    cold, tokenizer = lm
    warm = deepcopy(cold)
    warm.config.initial_state = warm.elmo.config.initial_state = "warm"
    warm.elmo.initial_state = InitialState(warm.config)
    torch.nn.init.normal_(warm.elmo.initial_state.hidden)
    ((zero,), (started,)) = (list(score(model, tokenizer, [["a", "dog"]])) for model in (cold, warm))
    assert abs(zero.forward - started.forward).min() > 1e-4
    assert abs(zero.backward - started.backward).min() > 1e-4


def test_a_stream_is_read_as_far_as_it_is_needed(lm):
    read = 0

    def endless():
        nonlocal read
        while True:
            read += 1
            yield ["a", "dog"]

    stream = score(*lm, endless(), max_words_per_batch=40)
    for _ in range(100):
        next(stream)
    assert read <= 100 + 8 * 40 / 4


@pytest.mark.parametrize(
    ("sentences", "error", "message"),
    [
        ([["a"], ["a", "b\udc00"]], ValueError, r"sentence 1: word 1 is 'b\\udc00'"),
        (["a b"], TypeError, "sentence 0: got the string 'a b'; expected a list of words"),
        ([[1]], TypeError, "sentence 0: word 0 is 1"),
    ],
)
def test_words_that_are_none(lm, sentences, error, message):
    with pytest.raises(error, match=message):
        list(score(*lm, sentences))


def test_what_cannot_be_scored(lm):
    with pytest.raises(ValueError, match="max_words_per_batch: got 0"):
        score(*lm, SENTENCES, max_words_per_batch=0)
    with pytest.raises(ValueError, match=r"in training mode.* expected model.eval\(\)"):
        score(random_lm().train(), lm[1], SENTENCES)
    with pytest.raises(ValueError, match="got no word to predict"):
        _ = Totals().perplexity


def test_loading(lm, tmp_path):
    model, tokenizer = lm
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded = load_language_model(tmp_path)
    assert not loaded.model.training
    for one, other in zip(score(*loaded, SENTENCES), score(*lm, SENTENCES), strict=True):
        np.testing.assert_array_equal(one.forward, other.forward)


def test_a_model_without_a_softmax_says_how_to_get_one(lm, tmp_path, capsys):
    random_model().save_pretrained(tmp_path)
    lm[1].save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"without its softmax.*`hf-elmo pretrain`.*`hf-elmo publish --with-lm-head`"):
        load_language_model(tmp_path)
    assert "MISSING" not in capsys.readouterr().err


def test_a_model_with_another_vocabulary(lm, tmp_path):
    random_lm().save_pretrained(tmp_path)
    lm[1].save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="got a vocabulary of 12 words and a softmax over 30"):
        load_language_model(tmp_path)


def test_no_model(tmp_path):
    with pytest.raises(OSError, match=r"without a config\.json"):
        load_language_model(tmp_path)


@pytest.mark.parametrize("name", [(), (None,), ("default",)])
def test_the_model_in_the_package(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, tokenizer = load_language_model(*name)
    assert tokenizer.vocab_size == model.config.vocab_size > 20_000
    (found,) = score(model, tokenizer, [["the", "dog"]])
    assert found.is_known == [True, True]
