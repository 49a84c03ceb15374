from collections import Counter

import numpy as np
import pytest
import torch

from hf_elmo import ElmoForPreTraining
from hf_elmo.perplexity import Perplexity, perplexity
from hf_elmo.pretraining.shards import PreparedCorpus
from hf_elmo.pretraining.streams import HeldoutStreams
from hf_elmo.pretraining.trainer import model_inputs
from tests.hf_elmo.models import converted, random_lm
from tests.hf_elmo.pretraining.prepared_corpora import prepare_sentences
from tests.oracles import numpy_elmo, random_weights

HELDOUT = [["The", "dog", "let", "out", "a", "sharp", "bark", "."], ["東京", "."], [], ["a", "zebra", "a"], ["naïve"]]
SENTENCES = [words for words in HELDOUT if words]
BOUNDARIES = ("<S>", "</S>")
VOCAB_SIZE = 7
OPTIONS = random_weights.options("tiny")
WEIGHTS = random_weights.random_weights(OPTIONS, seed=3)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> PreparedCorpus:
    folder = tmp_path_factory.mktemp("corpus")
    return prepare_sentences(folder, [["The", "a", ".", "dog"], ["a", "."]], {"h": HELDOUT})


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> ElmoForPreTraining:
    elmo = converted(tmp_path_factory.mktemp("weights"), OPTIONS, WEIGHTS)
    elmo.config.vocab_size = VOCAB_SIZE + 1
    lm = ElmoForPreTraining(elmo.config)
    torch.manual_seed(0)
    torch.nn.init.normal_(lm.lm_head.weight)
    torch.nn.init.normal_(lm.lm_head.bias)
    lm.elmo.load_state_dict(elmo.state_dict(), strict=False)
    return lm


def evaluate(model, prepared, *, batch_size=1, unroll_steps=4, **options) -> Perplexity:
    streams = HeldoutStreams(
        prepared, "heldout-h", batch_size=batch_size, unroll_steps=unroll_steps, vocab_size=VOCAB_SIZE
    )
    return perplexity(model, map(model_inputs, streams), **options)


def losses_by_hand(model, prepared, direction: int) -> np.ndarray:
    """By definition, in NumPy and float64: one row that reads all sentences one after the other, in one pass."""
    vocabulary = {word: row for row, word in enumerate(prepared.vocabulary(VOCAB_SIZE))}
    first, last = BOUNDARIES if direction == 0 else BOUNDARIES[::-1]
    read, predicted = [], []
    for sentence in SENTENCES:
        ids = [first, *(sentence if direction == 0 else sentence[::-1]), last]
        read += ids[:-1]
        predicted += [vocabulary.get(word, vocabulary["<UNK>"]) for word in ids[1:]]
    order = slice(None) if direction == 0 else slice(None, None, -1)  # bilm reads its second half from the end
    vectors = numpy_elmo.token_vectors(np.array([numpy_elmo.word_to_ids(word) for word in read]), OPTIONS, WEIGHTS)
    layers, _ = numpy_elmo.bilm(vectors[order], OPTIONS, WEIGHTS)
    top = np.split(layers[-1], 2, axis=-1)[direction][order]  # (n, P)
    weight, bias = (values.detach().double().numpy() for values in (model.lm_head.weight, model.lm_head.bias))
    logits = top @ weight.T + bias  # (n, V)
    return np.log(np.exp(logits).sum(axis=-1)) - logits[np.arange(len(read)), predicted]


@pytest.mark.parametrize("unroll_steps", [1, 4, 7, 100])
def test_equals_the_definition_however_the_text_is_cut(model, prepared, unroll_steps):
    forward, backward = (losses_by_hand(model, prepared, direction) for direction in (0, 1))
    result = evaluate(model, prepared, unroll_steps=unroll_steps)
    assert result.forward == pytest.approx(np.exp(forward.mean()), rel=1e-5)
    assert result.backward == pytest.approx(np.exp(backward.mean()), rel=1e-5)
    assert result.average == pytest.approx(np.sqrt(result.forward * result.backward), rel=1e-12)
    assert result.predictions == len(forward) == sum(len(words) + 1 for words in SENTENCES)


@pytest.mark.parametrize(("batch_size", "unroll_steps"), [(1, 3), (3, 2), (4, 100), (9, 5)])
def test_every_word_counts_once(model, prepared, batch_size, unroll_steps):
    """A softmax of its biases alone does not see the context: the streams make no difference, only the counts do."""
    unigram = ElmoForPreTraining(model.config)
    torch.nn.init.zeros_(unigram.lm_head.weight)
    unigram.lm_head.bias.data = torch.arange(VOCAB_SIZE).float()
    vocabulary = {word: row for row, word in enumerate(prepared.vocabulary(VOCAB_SIZE))}
    counts = Counter(vocabulary.get(word, 2) for words in SENTENCES for word in words)
    logits = np.arange(VOCAB_SIZE)
    losses = np.log(np.exp(logits).sum()) - logits
    expected = []
    for closing in (1, 0):  # </S> forward, <S> backward
        every = counts + Counter({closing: len(SENTENCES)})
        expected.append(np.exp(sum(losses[row] * n for row, n in every.items()) / every.total()))
    result = evaluate(unigram, prepared, batch_size=batch_size, unroll_steps=unroll_steps)
    assert (result.forward, result.backward) == pytest.approx(expected, rel=1e-6)
    assert result.predictions == prepared.split_report("heldout-h")["predictions_per_direction"]


def test_the_state_is_carried_only_on_request(model, prepared):
    carried = [evaluate(model, prepared, unroll_steps=steps) for steps in (3, 100)]
    anew = [evaluate(model, prepared, unroll_steps=steps, carry=False) for steps in (3, 100)]
    assert carried[1] == anew[1]  # a single batch
    assert carried[0].forward == pytest.approx(carried[1].forward, rel=1e-5)
    assert abs(anew[0].forward / anew[1].forward - 1) > 1e-3


def test_uses_the_full_softmax_without_dropout_and_leaves_the_model_training(prepared):
    model = random_lm(vocab_size=VOCAB_SIZE + 1, num_negative_samples=3, dropout=0.5).train()
    assert model.lm_head.sampled
    torch.manual_seed(0)
    before = torch.get_rng_state()
    assert len({evaluate(model, prepared) for _ in range(3)}) == 1
    assert torch.equal(before, torch.get_rng_state())
    assert model.training
    evaluate(model.eval(), prepared)
    assert not model.training


def test_a_model_that_is_far_off_has_an_infinite_perplexity(prepared):
    model = random_lm(vocab_size=VOCAB_SIZE + 1)
    model.lm_head.bias.data[0] = 1e4
    assert evaluate(model, prepared).forward == np.inf


def test_nothing_to_predict():
    with pytest.raises(ValueError, match="got no word to predict"):
        perplexity(random_lm(), [])
