"""The warm state: what the LSTMs of a carried stream know, on average, where a sentence begins.

A biLM pretrained on continuous streams never begins a sentence from zero: its state is what the sentence before left.
A sentence read by itself can begin in the mean of these states instead (`initial_state="warm"`), which is one constant
per layer and direction, so that the sentence's vectors still depend on nothing but the sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor

from hf_elmo.character_ids import BEGIN_SENTENCE, END_SENTENCE
from hf_elmo.initial_state import ElmoState, InitialState
from hf_elmo.modeling_elmo import ElmoModel, ElmoPreTrainedModel
from hf_elmo.pretraining.trainer import model_inputs

# What a direction reads first of every sentence: `<S>` forward, `</S>` backward.
_FIRST_MARKS = (BEGIN_SENTENCE, END_SENTENCE)


@torch.no_grad()
def mean_state_at_sentence_beginnings(
    model: ElmoPreTrainedModel, streams: Iterable[Mapping[str, np.ndarray]]
) -> ElmoState:
    """The mean of a carried state just before each sentence's first boundary is read, summed in float64.

    The streams begin at zero.  The first sentence of each of them has nothing before it and is not counted; every other
    one counts once, in each direction by itself.

    Args:
        model: any ELMo; read in evaluation mode.
        streams: a pass over continuous text, such as `HeldoutStreams` of any split.

    Shape:
        → cell (L, 2, 1, D), hidden (L, 2, 1, P), float64

    Raises:
        ValueError: no row of the streams has a second sentence.
    """
    was_training = model.training
    model.eval()
    like = next(model.parameters())
    state: ElmoState | None = None
    has_read = torch.zeros(2, 0, dtype=torch.bool)  # (2, B) whether a row has begun a sentence before
    sums = [like.new_zeros((), dtype=torch.float64)] * 2
    counts = torch.zeros(2, dtype=torch.float64)
    for batch in streams:
        inputs = {name: values.to(like.device) for name, values in model_inputs(batch).items()}
        if state is None:
            batch_size = len(inputs["character_ids"])
            state = ElmoState.zeros(model.config, batch_size, like=like)
            has_read = torch.zeros(2, batch_size, dtype=torch.bool, device=like.device)
        begins = _sentence_beginnings(inputs)  # (2, B, T)
        for position in range(begins.shape[-1]):
            counted = (begins[..., position] & has_read).double()  # (2, B)
            sums = [
                total + torch.einsum("ldbn,db->ldn", part.double(), counted)
                for total, part in zip(sums, state, strict=True)
            ]
            counts += counted.sum(dim=1).cpu()
            has_read |= begins[..., position]
            state = _read_one(model, inputs, position, state)
    model.train(was_training)
    if not counts.all():
        raise ValueError(
            "warm state: got no sentence that follows another in its stream; expected more text, or fewer parallel "
            "streams."
        )
    cell, hidden = (total / counts.to(total.device)[:, None] for total in sums)  # (L, 2, D), (L, 2, P)
    return ElmoState(cell.unsqueeze(2), hidden.unsqueeze(2))


def store_warm_state(model: ElmoPreTrainedModel, streams: Iterable[Mapping[str, np.ndarray]]) -> None:
    """Give the model the warm state of a text, to be saved with its weights: `config.initial_state` becomes "warm".

    From then on a sentence begins in that state wherever the caller hands none over.

    Args:
        model: any ELMo, with or without a softmax; changed in place.
        streams: as in `mean_state_at_sentence_beginnings`.  Of text that the model is trained on; held-out text would
            be known to it a little afterwards.

    Raises:
        ValueError: see `mean_state_at_sentence_beginnings`; then the model is as it was.
    """
    mean = mean_state_at_sentence_beginnings(model, streams)
    weight = next(model.parameters())
    model.config.initial_state = "warm"
    body = model.base_model
    assert isinstance(body, ElmoModel)
    body.config.initial_state = "warm"
    body.initial_state = InitialState(body.config).to(weight)
    body.initial_state.store(ElmoState(*(part.to(weight) for part in mean)))


def _sentence_beginnings(inputs: Mapping[str, Tensor]) -> Tensor:
    """(2, B, T) bool: where each direction reads a sentence's first boundary; not at the padding of a last batch."""
    read = inputs["character_ids"], inputs["backward_character_ids"]  # (B, T, C) each
    labels = inputs["labels"], inputs["backward_labels"]  # (B, T) each
    return torch.stack(
        [
            (words[..., 1] == mark) & (next_words > 0)
            for words, next_words, mark in zip(read, labels, _FIRST_MARKS, strict=True)
        ]
    )


def _read_one(model: ElmoPreTrainedModel, inputs: Mapping[str, Tensor], position: int, state: ElmoState) -> ElmoState:
    here = slice(position, position + 1)
    output = model.base_model(
        inputs["character_ids"][:, here], backward_character_ids=inputs["backward_character_ids"][:, here], state=state
    )
    assert output.state is not None
    return output.state
