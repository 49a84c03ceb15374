import numpy as np
import pytest
import torch

from hf_elmo import ElmoForPreTraining
from hf_elmo.initial_state import InitialState
from hf_elmo.pretraining.perplexity_by_state import STATES, perplexity_by_state
from tests.hf_elmo.models import random_lm
from tests.hf_elmo.pretraining.numpy_streams import (
    OPTIONS,
    negative_log_likelihoods,
    numpy_lm,
    read,
    sentence_as_read,
    state_of,
)
from tests.hf_elmo.pretraining.prepared_corpora import prepare_sentences
from tests.oracles.numpy_elmo import zero_state

HELDOUT = [["The", "dog", "let", "out", "a", "sharp", "bark", "."], ["東京", "."], ["a", "zebra", "a"], ["naïve"]]
VOCAB_SIZE = 7
PREDICTIONS = sum(len(words) + 1 for words in HELDOUT)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    train = [["The", "a", ".", "dog"], ["a", "."]]
    return prepare_sentences(folder, train, {"h": HELDOUT}, vocab_size=VOCAB_SIZE)


def with_random_warm_state(model: ElmoForPreTraining) -> ElmoForPreTraining:
    model.config.initial_state = model.elmo.config.initial_state = "warm"
    model.elmo.initial_state = InitialState(model.config)
    generator = torch.Generator().manual_seed(5)
    for stored in model.elmo.initial_state.buffers():
        stored.normal_(generator=generator)
    return model


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> ElmoForPreTraining:
    return with_random_warm_state(numpy_lm(tmp_path_factory.mktemp("weights"), VOCAB_SIZE))


def perplexities_by_hand(model, prepared, state: str) -> list[float]:
    """Forward and backward, sentence by sentence in NumPy."""
    vocabulary = {word: row for row, word in enumerate(prepared.vocabulary())}
    results = []
    for direction in (0, 1):
        losses = []
        before = zero_state(OPTIONS)
        for sentence in HELDOUT:
            if state != "carry":
                before = zero_state(OPTIONS) if state == "zero" else state_of(model)
            words = sentence_as_read(sentence, direction)
            top, before = read(words[:-1], direction, before)
            rows = [vocabulary.get(word, vocabulary["<UNK>"]) for word in words[1:]]
            losses += negative_log_likelihoods(model, top, rows).tolist()
        assert len(losses) == PREDICTIONS
        results.append(float(np.exp(np.mean(losses))))
    return results


def test_each_state_is_the_definition(model, prepared):
    results = perplexity_by_state(model, prepared, "heldout-h")
    assert list(results) == list(STATES)
    for state, result in results.items():
        forward, backward = perplexities_by_hand(model, prepared, state)
        assert result.forward == pytest.approx(forward, rel=1e-5)
        assert result.backward == pytest.approx(backward, rel=1e-5)
        assert result.average == pytest.approx(np.sqrt(forward * backward), rel=1e-5)
        assert result.predictions == PREDICTIONS
    figures = [result.average for result in results.values()]
    assert min(abs(one - other) for one in figures for other in figures if one is not other) > 1e-3


def test_the_batches_make_no_difference(model, prepared, monkeypatch):
    whole = perplexity_by_state(model, prepared, "heldout-h")
    for words in (1, 9):
        monkeypatch.setattr("hf_elmo.pretraining.perplexity_by_state._WORDS_PER_BATCH", words)
        monkeypatch.setattr("hf_elmo.pretraining.perplexity_by_state._UNROLL_STEPS", words)
        for state, result in perplexity_by_state(model, prepared, "heldout-h").items():
            assert result.average == pytest.approx(whole[state].average, rel=1e-5)


def test_as_many_streams_as_sentences_carry_nothing(model, prepared, monkeypatch):
    monkeypatch.setattr("hf_elmo.pretraining.perplexity_by_state._UNROLL_STEPS", 1)
    results = perplexity_by_state(model, prepared, "heldout-h", num_streams=len(HELDOUT))
    assert results["carry"].average == pytest.approx(results["zero"].average, rel=1e-5)


def test_by_the_full_softmax_without_dropout_and_leaves_the_model_training(prepared):
    model = with_random_warm_state(random_lm(vocab_size=VOCAB_SIZE + 1, num_negative_samples=3, dropout=0.5)).train()
    assert model.lm_head.sampled
    one, other = (perplexity_by_state(model, prepared, "heldout-h") for _ in range(2))
    assert one == other
    assert model.training


def test_what_cannot_be_asked_for(model, prepared):
    with pytest.raises(ValueError, match="got 'cold'; expected some of zero, warm, carry"):
        perplexity_by_state(model, prepared, "heldout-h", states=["cold"])
    with pytest.raises(ValueError, match="got split 'heldout-x'"):
        perplexity_by_state(model, prepared, "heldout-x")
    without = random_lm(vocab_size=VOCAB_SIZE + 1)
    with pytest.raises(ValueError, match="initial state is 'zero'; expected one that stores a warm state"):
        perplexity_by_state(without, prepared, "heldout-h", states=["zero", "warm"])
    assert list(perplexity_by_state(without, prepared, "heldout-h", states=["carry"])) == ["carry"]
