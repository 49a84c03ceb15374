"""A frozen biLM under a task that is being trained: it reads every sentence once, not once an epoch."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hf_elmo.cached_layers import CachedLayers
from hf_elmo.character_ids import BEGIN_WORD, END_WORD
from hf_elmo.embedder import ElmoEmbedder
from hf_elmo.layer_cache import LayerCache
from hf_elmo.modeling_elmo import ElmoModel, ElmoModelOutput, words_of
from hf_elmo.sentence_boundaries import boundaries_of
from hf_elmo.task_model import ElmoTaskModel


def why_not_remembered(model: ElmoTaskModel, *, num_gpus: int = 0) -> str | None:
    """Why a model's layers cannot be computed once for all, or None where they can."""
    config = model.config
    if not isinstance(model.elmo, ElmoModel):
        return "there is no biLM"
    if not config.freeze_bilm:
        return "the biLM is trained too"
    if config.initial_state == "carry":
        return "initial_state is 'carry', so that a sentence's vectors depend on those before"
    if config.pool_boundaries or config.mix_layer_norm == "batch":
        return "the boundaries' vectors count, which are not kept"
    if num_gpus > 1:
        return "one process serves several GPUs"
    return None


@contextmanager
def remembering_layers(model: ElmoTaskModel, cache: LayerCache) -> Iterator[None]:
    """Within the block `model.elmo` takes its layers from the cache, as far as they are there.

    Its parameters stay where they are, so that checkpoints are complete; the scalar mixes are trained as ever.

    Raises:
        ValueError: the layers of this model cannot be remembered.
    """
    reason = why_not_remembered(model)
    if reason is not None:
        raise ValueError(f"model: its layers cannot be remembered: {reason}.")
    elmo = model.elmo
    assert isinstance(elmo, ElmoModel)
    elmo.forward = _RememberedForward(elmo, cache)  # hides the class's own
    try:
        yield
    finally:
        del elmo.forward


class _RememberedForward:
    """What `ElmoModel.forward` computes, but for the boundaries, whose vectors are 0."""

    def __init__(self, elmo: ElmoModel, cache: LayerCache) -> None:
        self._elmo = elmo
        self._compute: Callable[..., ElmoModelOutput] = elmo.forward
        self._cache = cache
        self._layers: CachedLayers | None = None

    def __call__(
        self,
        character_ids: Tensor,
        attention_mask: Tensor | None = None,
        output_hidden_states: Any = None,
        return_dict: Any = None,
        **kwargs: Any,
    ) -> ElmoModelOutput:
        words = words_of(character_ids, attention_mask)  # (B, T)
        inner = words & ~boundaries_of(character_ids)
        sentences = None if kwargs else _sentences(character_ids, words, inner)
        if sentences is None:
            kwargs |= {"output_hidden_states": output_hidden_states, "return_dict": return_dict}
            return self._compute(character_ids, attention_mask=attention_mask, **kwargs)
        if self._layers is None:  # the model is on its device by now
            training = self._elmo.training
            self._layers = CachedLayers(ElmoEmbedder(_without_mix(self._elmo)), self._cache)
            self._elmo.train(training)
        config = self._elmo.config
        hidden = np.zeros(
            (config.num_hidden_layers + 1, *words.shape, config.hidden_size), np.float32
        )  # (L+1, B, T, W)
        for row, layers in enumerate(self._layers.embed(sentences)):
            hidden[:, row, inner[row].cpu().numpy()] = layers
        dtype = self._elmo.dtype
        states = torch.from_numpy(hidden).to(device=character_ids.device, dtype=dtype).unbind()
        assert self._elmo.scalar_mix is not None
        return ElmoModelOutput(
            last_hidden_state=self._elmo.scalar_mix(states, words),
            hidden_states=states if output_hidden_states else None,
        )


def _without_mix(elmo: ElmoModel) -> ElmoModel:
    """The same biLM, whose weights are not seen to change when the mix is trained."""
    view = copy.copy(elmo)
    view.__dict__.pop("forward", None)
    view._modules = {**elmo._modules, "scalar_mix": None}
    return view


def _sentences(character_ids: Tensor, words: Tensor, inner: Tensor) -> list[list[str]] | None:
    """The words of each row; None where a row is not one sentence between its boundaries, or cannot be spelled."""
    if bool((words.sum(dim=1) != inner.sum(dim=1) + 2).any()):
        return None
    first, last = words.int().argmax(dim=1), words.shape[1] - 1 - words.flip(1).int().argmax(dim=1)  # (B,)
    ends = torch.stack([first, last], dim=1)  # (B, 2)
    if bool(inner.gather(1, ends).any()):
        return None
    rows: NDArray[np.uint16] = character_ids.cpu().numpy().astype(np.uint16)
    places = inner.cpu().numpy()
    try:
        return [[_word(word.tobytes()) for word in row[place]] for row, place in zip(rows, places, strict=True)]
    except ValueError:
        return None


@functools.lru_cache(maxsize=200_000)
def _word(row: bytes) -> str:
    """The word of a row of character ids.

    Raises:
        ValueError: a row that no word gives, or one that was cut within a character.
    """
    characters = np.frombuffer(row, np.uint16)
    (ends,) = np.nonzero(characters == END_WORD)
    if characters[0] != BEGIN_WORD or not len(ends):
        raise ValueError("got a row that is no word's.")
    return (characters[1 : ends[0]] - 1).astype(np.uint8).tobytes().decode("utf-8")
