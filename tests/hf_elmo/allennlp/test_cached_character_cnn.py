"""A cached vocabulary changes no vector."""

import logging
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.allennlp import Elmo, batch_to_ids
from hf_elmo.character_cnn import CharacterCNN
from tests.hf_elmo.allennlp.original import Original, assert_close
from tests.hf_elmo.models import WORDS

# As AllenNLP's vocabulary lists them: padding, the unknown word, then the words; some of WORDS are missing.
VOCABULARY = ["@@PADDING@@", "@@UNKNOWN@@", *WORDS[:9]]
OUTSIDE = len(VOCABULARY) + 5

_ELMOS: dict[Any, Elmo] = {}


def _elmo(original: Original, **kwargs: Any) -> Elmo:
    key = (original.weight_file, str(kwargs))
    if key not in _ELMOS:
        elmo = Elmo(*original.files, 1, dropout=0.0, **kwargs).double()
        if kwargs:  # once more, in double precision
            elmo._elmo_lstm.create_cached_cnn_embeddings(kwargs["vocab_to_cache"])
        _ELMOS[key] = elmo
    return _ELMOS[key]


def _word_ids(batch: list[list[str]], unknown: int) -> torch.Tensor:
    rows = [torch.tensor([VOCABULARY.index(w) if w in VOCABULARY else unknown for w in s]).long() for s in batch]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


@given(
    batch=st.lists(st.lists(st.sampled_from([*WORDS, "東", ""]), max_size=6), min_size=1, max_size=4),
    unknown=st.sampled_from([1, OUTSIDE]),
)
def test_vectors_are_the_same_with_and_without_the_cache(
    original: Original, batch: list[list[str]], unknown: int
) -> None:
    ids = batch_to_ids(batch)
    expected = _elmo(original)(ids)
    cached = _elmo(original, vocab_to_cache=VOCABULARY)(ids, _word_ids(batch, unknown))
    assert torch.equal(cached["mask"], expected["mask"])
    assert_close(cached["elmo_representations"][0], expected["elmo_representations"][0].detach().numpy(), 1e-12)


def test_cached_words_are_looked_up_and_not_computed(original: Original, monkeypatch: pytest.MonkeyPatch) -> None:
    elmo = _elmo(original, vocab_to_cache=VOCABULARY)
    computed = []
    plain = CharacterCNN.forward
    monkeypatch.setattr(
        CharacterCNN, "forward", lambda self, ids: computed.append(ids.flatten(0, -2)) or plain(self, ids)
    )
    batch = [WORDS[:4], WORDS[8:10]]
    elmo(batch_to_ids(batch), _word_ids(batch, OUTSIDE))
    spelled = {tuple(row) for row in torch.cat(computed).tolist() if any(row)}
    outside = {tuple(row) for row in batch_to_ids([["<S>", "</S>", WORDS[9]]])[0].tolist()}
    assert spelled == outside


def test_words_of_the_cache_need_no_characters(original: Original) -> None:
    elmo = _elmo(original, vocab_to_cache=VOCABULARY)
    ids, word_ids = batch_to_ids([WORDS[:3]]), torch.tensor([[2, 3, 4]])
    expected = elmo(ids, word_ids)["elmo_representations"][0].detach().numpy()
    assert_close(elmo(torch.zeros_like(ids), word_ids)["elmo_representations"][0], expected, 0)


def test_without_word_ids_the_characters_are_read(original: Original) -> None:
    ids = batch_to_ids([WORDS])
    expected = _elmo(original)(ids)["elmo_representations"][0].detach().numpy()
    assert_close(_elmo(original, vocab_to_cache=VOCABULARY)(ids)["elmo_representations"][0], expected, 1e-12)


def test_more_dimensions(original: Original) -> None:
    elmo = _elmo(original, vocab_to_cache=VOCABULARY)
    batch = [WORDS[:3], WORDS[3:5], WORDS[5:6], WORDS[6:9]]
    ids, word_ids = batch_to_ids(batch), _word_ids(batch, OUTSIDE)
    flat = elmo(ids, word_ids)["elmo_representations"][0].detach().numpy()
    nested = elmo(ids.reshape(2, 2, 3, 50), word_ids.reshape(2, 2, 3))
    assert nested["mask"].shape == (2, 2, 3)
    assert_close(nested["elmo_representations"][0].flatten(0, 1), flat, 1e-12)


def test_word_ids_without_a_cache_are_ignored_with_a_warning(original: Original) -> None:
    ids = batch_to_ids([WORDS[:3]])
    with pytest.warns(UserWarning, match="word_inputs: ignored"):
        output = _elmo(original)(ids, torch.tensor([[1, 2, 3]]))
    assert_close(output["elmo_representations"][0], _elmo(original)(ids)["elmo_representations"][0].detach().numpy(), 0)


@pytest.mark.parametrize(
    ("word_ids", "error", "message"),
    [
        (torch.ones(1, 4, dtype=torch.long), ValueError, r"got shape \(1, 4\); expected \(1, 3\)"),
        (torch.ones(1, 3), TypeError, "got a tensor of torch.float32; expected integer word ids"),
        (torch.tensor([[1, -2, 3]]), ValueError, "got the id -2"),
        ([[1, 2, 3]], TypeError, "got list"),
    ],
)
def test_wrong_word_ids_are_refused(original: Original, word_ids: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^word_inputs: {message}"):
        _elmo(original, vocab_to_cache=VOCABULARY)(batch_to_ids([WORDS[:3]]), word_ids)


def test_a_word_outside_the_cache_needs_its_characters(original: Original) -> None:
    ids = torch.zeros_like(batch_to_ids([WORDS[:3]]))
    with pytest.raises(ValueError, match=f"got the id {OUTSIDE} at a word without character ids"):
        _elmo(original, vocab_to_cache=VOCABULARY)(ids, torch.tensor([[2, OUTSIDE, 4]]))


def test_a_word_with_a_lone_surrogate_is_refused(original: Original) -> None:
    with pytest.raises(ValueError, match=r"word 1 .* lone surrogate"):
        Elmo(*original.files, 1, vocab_to_cache=["", "a\ud800"])


def test_the_table_is_frozen_like_the_bilm(original: Original) -> None:
    elmo = _elmo(original, vocab_to_cache=VOCABULARY)
    assert {name for name, p in elmo.named_parameters() if p.requires_grad} == {
        name for name, _ in elmo.named_parameters() if name.startswith("scalar_mix_")
    }


def test_training_a_cached_vocabulary_is_warned_of(
    original: Original, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    monkeypatch.setattr(logging.getLogger("hf_elmo"), "propagate", True)
    with caplog.at_level(logging.WARNING):
        elmo = Elmo(*original.files, 1, requires_grad=True, vocab_to_cache=VOCABULARY)
    assert "requires_grad=True" in caplog.text
    assert all(parameter.requires_grad for parameter in elmo.parameters())
