"""Perplexity of a biLM on held-out text (Peters et al. 2018, section 3.4)."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from hf_elmo.initial_state import ElmoState
from hf_elmo.modeling_elmo import ElmoForPreTraining, neighbours, words_of


class Perplexity(NamedTuple):
    """How well a biLM predicts a text, by its exact distribution over all words.

    Losses are summed over words and divided once at the end.

    Every word and each sentence's closing boundary (`</S>` forward, `<S>` backward) is predicted once per direction;
    words outside the vocabulary count as the one class `<UNK>`.

    Attributes:
        forward, backward: exp of the mean negative log-likelihood per prediction.
        average: √(forward · backward), what the reference prints.
        predictions: how many were made per direction.
    """

    forward: float
    backward: float
    average: float
    predictions: int


class PerplexitySum:
    """Losses of both directions, added up in float64."""

    def __init__(self) -> None:
        self._sums = torch.zeros(2, dtype=torch.float64)
        self._counts = [0, 0]

    def add(self, direction: int, losses: Tensor) -> None:
        """Add the negative log-likelihoods, in nats, of some predictions: 0 forward, 1 backward."""
        self._sums[direction] += losses.double().sum().cpu()
        self._counts[direction] += len(losses)

    def perplexity(self) -> Perplexity:
        """Of all predictions so far.

        Raises:
            ValueError: there is none.
        """
        if min(self._counts) == 0:
            raise ValueError("perplexity: got no word to predict; expected held-out text of at least one sentence.")
        losses = self._sums / torch.tensor(self._counts)  # (2,)
        forward, backward = losses.exp().tolist()
        return Perplexity(forward, backward, losses.mean().exp().item(), self._counts[0])


@torch.no_grad()
def perplexity(
    model: ElmoForPreTraining,
    batches: Iterable[Mapping[str, Tensor]],
    *,
    carry: bool = True,
    state: ElmoState | None = None,
) -> Perplexity:
    """Evaluate on batches of both directions' streams, or of whole sentences.

    Args:
        model: is put into evaluation mode, and back.
        batches: of streams `character_ids`, `labels`, `backward_character_ids`, `backward_labels`; of sentences
            `character_ids`, `labels` and, where there is padding, `attention_mask`; see [`ElmoForPreTraining`].
        carry: hand the LSTM state of streams from batch to batch, where rows continue; otherwise each batch starts
            anew.  Sentences always do.
        state: of streams, before the first batch, instead of the one that the model is configured with.

    Raises:
        ValueError: there is nothing to predict.
    """
    was_training = model.training
    model.eval()
    device = next(model.parameters()).device
    total = PerplexitySum()
    first = state
    for batch in batches:
        inputs = {name: value.to(device) for name, value in batch.items()}
        labels, backward_labels = inputs.pop("labels"), inputs.pop("backward_labels", None)
        if backward_labels is None:
            words = words_of(inputs["character_ids"], inputs.get("attention_mask"))
            targets, before = neighbours(labels, words), None
        else:
            targets, before = (labels, backward_labels), state
        output = model(**inputs, state=before)
        state = output.state if carry else first
        tops = output.forward_hidden_state, output.backward_hidden_state
        for direction, (top, predicted) in enumerate(zip(tops, targets, strict=True)):
            total.add(direction, model.lm_head.negative_log_likelihood(top, predicted))
    model.train(was_training)
    return total.perplexity()
