"""One direction of a biLM in NumPy, with its state: what streams and warm states are tested against."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from hf_elmo import ElmoForPreTraining
from tests.hf_elmo.models import converted
from tests.oracles import numpy_elmo, random_weights
from tests.oracles.numpy_elmo import State

OPTIONS = random_weights.options("tiny")
WEIGHTS = random_weights.random_weights(OPTIONS, seed=3)


def numpy_lm(folder, vocab_size: int) -> ElmoForPreTraining:
    """A language model with the weights above and a random softmax."""
    elmo = converted(folder, OPTIONS, WEIGHTS)
    elmo.config.vocab_size = vocab_size + 1
    lm = ElmoForPreTraining(elmo.config).eval()
    lm.elmo.load_state_dict(elmo.state_dict(), strict=False)
    torch.manual_seed(0)
    torch.nn.init.normal_(lm.lm_head.weight)
    torch.nn.init.normal_(lm.lm_head.bias)
    return lm


def read(words: Sequence[str], direction: int, state: State) -> tuple[np.ndarray, State]:
    """Top layer (n, P) of a direction that reads `words` in this order, and the state it leaves."""
    order = slice(None) if direction == 0 else slice(None, None, -1)  # bilm reads its second half from the end
    vectors = numpy_elmo.token_vectors(np.array([numpy_elmo.word_to_ids(word) for word in words]), OPTIONS, WEIGHTS)
    layers, state = numpy_elmo.bilm(vectors[order], OPTIONS, WEIGHTS, state)
    return np.split(layers[-1], 2, axis=-1)[direction][order], state


def negative_log_likelihoods(model: ElmoForPreTraining, top: np.ndarray, rows: Sequence[int]) -> np.ndarray:
    """By definition, in float64."""
    weight, bias = (values.detach().double().numpy() for values in (model.lm_head.weight, model.lm_head.bias))
    logits = top @ weight.T + bias  # (n, V)
    return np.log(np.exp(logits).sum(axis=-1)) - logits[np.arange(len(rows)), rows]


def sentence_as_read(sentence: Sequence[str], direction: int) -> list[str]:
    """With both boundaries: the last word is only predicted."""
    return ["<S>", *sentence, "</S>"] if direction == 0 else ["</S>", *reversed(sentence), "<S>"]


def state_of(model: Any) -> State:
    """The stored warm state."""
    stored = model.base_model.initial_state
    return State(cell=stored.cell.double().numpy(), hidden=stored.hidden.double().numpy())
