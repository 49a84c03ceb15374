"""Perplexity of the same sentences begun from zero, from the warm state, and in one carried stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from hf_elmo.initial_state import ElmoState
from hf_elmo.modeling_elmo import ElmoForPreTraining
from hf_elmo.perplexity import Perplexity, PerplexitySum, perplexity
from hf_elmo.pretraining.batches import NO_LABEL, Batch
from hf_elmo.pretraining.sentence_batches import SentenceBatches
from hf_elmo.pretraining.shards import PreparedCorpus
from hf_elmo.pretraining.streams import HeldoutStreams
from hf_elmo.pretraining.trainer import model_inputs

STATES = ("zero", "warm", "carry")

_WORDS_PER_BATCH = 2048
_UNROLL_STEPS = 20


def check_states(model: ElmoForPreTraining, states: Sequence[str]) -> None:
    """Raises ValueError for a state that does not exist, or a warm one that the model does not have."""
    for state in states:
        if state not in STATES:
            raise ValueError(f"states: got {state!r}; expected some of {', '.join(STATES)}.")
    if "warm" in states and model.config.initial_state != "warm":
        raise ValueError(
            f'states: got "warm" for a model whose initial state is {model.config.initial_state!r}; expected one that '
            "stores a warm state, as `hf-elmo adapt MODEL CORPUS --max_steps 0 --store_warm_state` makes it."
        )


def perplexity_by_state(
    model: ElmoForPreTraining,
    prepared: PreparedCorpus,
    split: str,
    *,
    states: Sequence[str] = STATES,
    num_streams: int = 1,
) -> dict[str, Perplexity]:
    """Perplexity of a split by the full softmax, for each way to begin a sentence.

    The three are comparable: each predicts, in each direction, every word of the split and every sentence's closing
    boundary (`</S>` forward, `<S>` backward) exactly once, in the same vocabulary, and differs only in the state in
    which a sentence's first boundary is read.

    * "zero": each sentence by itself, from zero;
    * "warm": each sentence by itself, from the state stored with the model;
    * "carry": one after the other, each in the state that the sentence before left, in both directions in the order of
      the text; the first one from zero.

    Args:
        model: is put into evaluation mode, and back.
        prepared: a corpus whose first words are the model's vocabulary (see `with_vocabulary`).
        split: which part of it.
        states: which of the three.
        num_streams: parallel streams of "carry".  With more than one, which is faster, the sentences are dealt out to
            them in turn, so that each follows one that stood some sentences before.

    Raises:
        ValueError: see `check_states`; a split that is not there, or has no word.
    """
    check_states(model, states)
    sizes = {
        "vocab_size": model.config.vocab_size - 1,
        "max_characters_per_word": model.config.max_characters_per_word,
    }
    results = {}
    for state in states:
        if state == "carry":
            streams = HeldoutStreams(prepared, split, batch_size=num_streams, unroll_steps=_UNROLL_STEPS, **sizes)
            results[state] = perplexity(model, map(model_inputs, streams), state=_zero(model, num_streams))
        else:
            sentences = SentenceBatches(prepared, split, words_per_batch=_WORDS_PER_BATCH, endless=False, **sizes)
            results[state] = _perplexity_of_sentences(model, sentences, _zero if state == "zero" else _warm)
    return results


@torch.no_grad()
def _perplexity_of_sentences(
    model: ElmoForPreTraining, sentences: Iterable[Batch], begin_in: Callable[[ElmoForPreTraining, int], ElmoState]
) -> Perplexity:
    """Each sentence by itself, in the state that `begin_in` gives for a number of rows."""
    was_training = model.training
    model.eval()
    total = PerplexitySum()
    for batch in sentences:
        rows, index, mask, labels = (
            torch.from_numpy(batch[name]).to(model.device)
            for name in ("distinct_character_ids", "distinct_index", "attention_mask", "labels")
        )
        output = model(rows[index], attention_mask=mask, state=begin_in(model, len(index)))
        # A position reads its own word; forward predicts the next one, backward the one before.
        total.add(0, model.lm_head.negative_log_likelihood(output.forward_hidden_state[:, :-1], labels[:, 1:]))
        total.add(1, model.lm_head.negative_log_likelihood(output.backward_hidden_state[:, 1:], _previous(labels)))
    model.train(was_training)
    return total.perplexity()


def _previous(labels: Tensor) -> Tensor:
    """(B, T) → (B, T - 1): the word before each position but the first, none where the position is padding."""
    return torch.where(labels[:, 1:] == NO_LABEL, NO_LABEL, labels[:, :-1])


def _zero(model: ElmoForPreTraining, rows: int) -> ElmoState:
    return ElmoState.zeros(model.config, rows, like=next(model.lm_head.parameters()))


def _warm(model: ElmoForPreTraining, rows: int) -> ElmoState:
    return model.elmo.initial_state(rows, like=next(model.lm_head.parameters()))
