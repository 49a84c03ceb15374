"""The plain way of training and the model's own give the same losses, states and gradients."""

import pytest
import torch

from hf_elmo import ElmoForPreTraining
from tests.hf_elmo.models import ids, randomise, tiny_config
from tests.oracles.plain_training import plain_lm_loss

SENTENCES = [["The", "dog", "barked", "at", "東京"], ["A", "sharp", "x" * 60, "the", "dog"]]
ODD = [
    {},
    {"lstm_size": 6},  # no projection of the LSTM
    {"character_filters": [[2, 6]]},  # none of the token layer
    {"use_skip_connections": False, "num_hidden_layers": 3},
    {"cell_clip": None, "projection_clip": 0.05, "character_activation": "tanh"},
    {"lm_softmax": "full", "num_highway_layers": 0},
]


@pytest.mark.parametrize("changes", ODD, ids=str)
def test_the_same_loss_state_and_gradients(changes):
    model = ElmoForPreTraining(tiny_config(dropout=0.0, **changes)).double().train()
    randomise(model, seed=3)
    character_ids, _ = ids(SENTENCES)
    labels, backward_labels = torch.randint(1, 30, (2, *character_ids.shape[:2]), generator=torch.manual_seed(1))
    state = model.elmo.initial_state(2, like=model.lm_head.weight)
    state = type(state)(*(0.1 * torch.randn_like(part) for part in state))
    results = []
    for plain in (False, True):
        model.zero_grad()
        torch.manual_seed(5)  # of the negatives
        inputs = {
            "character_ids": character_ids,
            "labels": labels,
            "backward_character_ids": character_ids.flip(1),
            "backward_labels": backward_labels,
            "state": state,
        }
        if plain:
            loss, final = plain_lm_loss(model, **inputs)
        else:
            output = model(**inputs)
            loss, final = output.loss, output.state
        loss.backward()
        gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
        results.append((loss.detach(), final, gradients))
    (loss, final, gradients), (plain_loss, plain_final, plain_gradients) = results
    torch.testing.assert_close(loss, plain_loss, rtol=1e-12, atol=0)
    for ours, theirs in zip(final, plain_final, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    # The row of "no word" is padding to the model's embedding and never looked up.
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, plain_gradients[name], rtol=1e-9, atol=1e-12, msg=name)
