"""The state that is carried on request, as the reference carried it always."""

from typing import Any

import torch

from hf_elmo.allennlp import Elmo, ElmoEmbedder, batch_to_ids
from tests.hf_elmo.allennlp.original import TOP_LAYER, Original, assert_close

SENTENCES = [["The", "dog", "let", "out", "a", "bark"], ["a"], ["tree", "bark", "."], [], ["naïve", "東京"]]
# Larger, smaller and larger again; long sentences first and last.
BATCHES = [SENTENCES[:2], SENTENCES[1:2], SENTENCES[:4], SENTENCES[2:5], SENTENCES[4:], SENTENCES]


def _elmo(original: Original, **kwargs: Any) -> Elmo:
    return Elmo(*original.files, 1, dropout=0.0, scalar_mix_parameters=TOP_LAYER, **kwargs)


def _compare(elmo: Elmo, original: Original, batches: list[list[list[str]]], states: Any = ()) -> list[Any]:
    for batch in batches:
        expected, states = original.layers(batch, states)
        got = elmo(batch_to_ids(batch))["elmo_representations"][0]
        for row, layers in enumerate(expected):
            assert_close(got[row, : layers.shape[1]], layers[2])
    return states


def test_rows_of_batches_of_changing_size_go_on_where_they_ended(original: Original) -> None:
    _compare(_elmo(original, stateful=True), original, BATCHES)


def test_by_default_nothing_is_carried(original: Original) -> None:
    elmo = _elmo(original)
    for batch in BATCHES:
        _compare(elmo, original, [batch])


def test_the_state_is_forgotten_and_switched_as_in_the_reference(original: Original) -> None:
    elmo = _elmo(original, stateful=True)
    lstm = elmo._elmo_lstm._elmo_lstm
    states = _compare(elmo, original, BATCHES[:2])
    lstm.stateful = False
    _compare(elmo, original, BATCHES[2:3])
    lstm.stateful = True
    _compare(elmo, original, BATCHES[2:3], states)
    lstm.reset_states()
    _compare(elmo, original, BATCHES[2:])


def test_carrying_on_matters(original: Original) -> None:
    elmo = _elmo(original, stateful=True)
    ids = batch_to_ids(SENTENCES[:1])
    first, second = (elmo(ids)["elmo_representations"][0] for _ in range(2))
    assert (first - second).abs().max() > 1e-3


def test_the_state_has_no_history_and_is_not_saved(original: Original) -> None:
    elmo = _elmo(original, stateful=True, requires_grad=True)
    names = set(elmo.state_dict())
    for _ in range(2):  # a history would make the second call fail
        elmo(batch_to_ids(SENTENCES))["elmo_representations"][0].sum().backward()
    assert set(elmo.state_dict()) == names


def test_the_state_follows_the_model_to_another_precision(original: Original) -> None:
    elmo = _elmo(original, stateful=True)
    states = _compare(elmo, original, BATCHES[2:3])
    _compare(elmo.double(), original, BATCHES[:1], states)


def test_more_dimensions_are_rows_too(original: Original) -> None:
    elmo = _elmo(original, stateful=True)
    ids = batch_to_ids(SENTENCES[:4])
    for _ in range(2):
        nested = elmo(ids.reshape(2, 2, *ids.shape[1:]))["elmo_representations"][0]
    flat, states = original.layers(SENTENCES[:4])
    flat, _ = original.layers(SENTENCES[:4], states)
    for row, layers in enumerate(flat):
        assert_close(nested.flatten(0, 1)[row, : layers.shape[1]], layers[2])


def test_the_embedder_carries_too_and_a_batch_without_words_leaves_the_state_alone(original: Original) -> None:
    embedder = ElmoEmbedder(*original.files, stateful=True)
    states: Any = ()
    for batch in BATCHES:
        expected, states = original.layers(batch, states)
        for got, layers in zip(embedder.embed_batch(batch), expected, strict=True):
            assert_close(got, layers)
        assert embedder.embed_sentence([]).shape == (3, 0, 32)


def test_an_inference_before_training_does_not_disturb_it(original: Original) -> None:
    elmo = _elmo(original, stateful=True, requires_grad=True)
    with torch.inference_mode():
        elmo(batch_to_ids(SENTENCES))
    elmo(batch_to_ids(SENTENCES))["elmo_representations"][0].sum().backward()
    assert all(parameter.grad is not None for parameter in elmo._elmo_lstm.parameters())
