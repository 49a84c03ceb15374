"""The heads on static word vectors: what a word's vector is, and that it survives saving."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForTokenClassification

from hf_elmo.tasks.baseline import (
    BaselineConfig,
    BaselineForQuestionAnswering,
    BaselineForSequenceClassification,
    BaselineForTokenClassification,
    WordEmbeddings,
)
from tests.hf_elmo.models import ids

WORDS = ["dog", "Dog", "naïve", "東京", "a"]


def embeddings() -> WordEmbeddings:
    module = WordEmbeddings(BaselineConfig(num_words=len(WORDS), word_vector_size=3))
    module.set_words(WORDS, torch.arange(15.0).reshape(5, 3) + 1)
    return module


def test_each_word_has_its_own_vector_and_all_others_share_one() -> None:
    module = embeddings()
    with torch.no_grad():
        module.embedding.weight[-1] = -7
        vectors = module(*ids([[*reversed(WORDS), "cat", "dogs"], ["a"]])).last_hidden_state
    expected = [[13, 14, 15], [10, 11, 12], [7, 8, 9], [4, 5, 6], [1, 2, 3], [-7] * 3, [-7] * 3]
    np.testing.assert_array_equal(vectors[0, 1:8].numpy(), expected)
    np.testing.assert_array_equal(vectors[1].numpy(), [[-7] * 3, [13, 14, 15], [-7] * 3, *[[0] * 3] * 6])


def test_hashes_tell_words_apart() -> None:
    words = [f"{letter}{number}" for letter in "abcdefghij" for number in range(3000)]
    module = WordEmbeddings(BaselineConfig(num_words=len(words), word_vector_size=1))
    module.set_words(words, torch.arange(float(len(words))).unsqueeze(1))
    assert len(module.hashes.unique()) == len(words)
    vectors = module(ids([words])[0]).last_hidden_state
    np.testing.assert_array_equal(vectors[0, 1:-1, 0].detach().numpy(), np.arange(len(words)))


@pytest.mark.parametrize(
    "head", [BaselineForTokenClassification, BaselineForSequenceClassification, BaselineForQuestionAnswering]
)
def test_saved_and_loaded(head: type, tmp_path: Path) -> None:
    config = BaselineConfig(num_words=5, word_vector_size=3, num_labels=2, classifier_lstm_size=4, freeze_bilm=False)
    model = head(config).eval()
    model.elmo.set_words(WORDS, torch.randn(5, 3))
    model.save_pretrained(tmp_path)
    loaded = head.from_pretrained(tmp_path).eval()
    assert loaded.config.hidden_size == 3
    torch.testing.assert_close(loaded.state_dict(), model.state_dict(), rtol=0, atol=0)
    assert loaded.elmo.embedding.weight.requires_grad


def test_auto_class_finds_it(tmp_path: Path) -> None:
    BaselineForTokenClassification(BaselineConfig(num_words=5, word_vector_size=3)).save_pretrained(tmp_path)
    assert isinstance(AutoModelForTokenClassification.from_pretrained(tmp_path), BaselineForTokenClassification)
