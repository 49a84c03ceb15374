import numpy as np
import pytest
import torch

from hf_elmo import ElmoForPreTraining
from hf_elmo.perplexity import perplexity
from hf_elmo.pretraining.softmax_start import start_at_word_frequencies
from hf_elmo.pretraining.streams import HeldoutStreams
from hf_elmo.pretraining.trainer import model_inputs
from tests.hf_elmo.models import tiny_config
from tests.hf_elmo.pretraining.prepared_corpora import prepare_sentences

SENTENCES = [["a", "b", "a"], ["c", "<UNK>"], ["a", "d", "b", "rare", "rarer"]]


@pytest.mark.parametrize("vocab_size", [5, 9])
def test_no_other_biases_predict_the_text_better_without_context(tmp_path, vocab_size):
    prepared = prepare_sentences(tmp_path, SENTENCES)
    model = ElmoForPreTraining(tiny_config(vocab_size=vocab_size + 1))
    torch.nn.init.zeros_(model.lm_head.weight)
    start_at_word_frequencies(model.lm_head, prepared.counts, prepared.split_report("train")["sentences"])

    def loss() -> float:
        streams = HeldoutStreams(prepared, "train", batch_size=1, unroll_steps=50, vocab_size=vocab_size)
        return np.log(perplexity(model, map(model_inputs, streams)).average)

    best = loss()
    assert model.lm_head.bias.exp().sum().item() == pytest.approx(1)
    for row in range(vocab_size):
        for change in (-0.05, 0.05):
            model.lm_head.bias.data[row] += change
            assert loss() > best
            model.lm_head.bias.data[row] -= change


def test_an_adaptive_softmax_starts_at_the_frequencies_of_words_and_clusters(tmp_path):
    prepared = prepare_sentences(tmp_path, SENTENCES)
    options = {"lm_softmax": "adaptive", "adaptive_cutoffs": [4, 6]}
    model = ElmoForPreTraining(tiny_config(vocab_size=10, adaptive_div_value=2, **options))
    flat = ElmoForPreTraining(tiny_config(vocab_size=10))
    for lm in (model, flat):
        start_at_word_frequencies(lm.lm_head, prepared.counts, 3)
    nothing = torch.zeros(6)
    got, expected = (lm.lm_head.log_probabilities(nothing).exp() for lm in (model, flat))
    torch.testing.assert_close(got[:4], expected[:4])
    for begin, end in ((4, 6), (6, 9)):
        torch.testing.assert_close(got[begin:end], expected[begin:end].mean().expand(end - begin))


def test_a_word_that_the_text_does_not_have_stays_possible(tmp_path):
    prepared = prepare_sentences(tmp_path, SENTENCES, {"h": [["unseen"]]})
    model = ElmoForPreTraining(tiny_config(vocab_size=len(prepared.words) + 1))
    start_at_word_frequencies(model.lm_head, prepared.counts, 3)
    assert torch.isfinite(model.lm_head.bias).all()


def test_counts_of_another_vocabulary():
    with pytest.raises(ValueError, match="got 3; expected at least one for each of the head's 29 rows"):
        start_at_word_frequencies(ElmoForPreTraining(tiny_config()).lm_head, np.ones(3), 1)
