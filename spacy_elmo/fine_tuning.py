"""Training the biLM itself, by the gradients that listeners send back."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from spacy.tokens import Doc
from thinc.api import Optimizer
from torch import nn

from hf_elmo import ElmoModel
from spacy_elmo.bilm import BiLM
from spacy_elmo.handed_layers import HandedLayers
from spacy_elmo.listener import ElmoListener
from spacy_elmo.training_batch import TrainingBatch


class FineTuning:
    """How a biLM is trained.

    Args:
        learning_rate_factor: its learning rate, in units of the optimizer's.
        unfreeze_after: gradual unfreezing from the top (Howard and Ruder 2018): after how many steps of the optimizer
            the top layer, the layer below it and so on to the token layer begin to learn.  Layers that are not listed
            stay frozen.  None trains all from the start.
    """

    def __init__(self, *, learning_rate_factor: float = 1.0, unfreeze_after: Sequence[int] | None = None) -> None:
        if not 0 < learning_rate_factor < math.inf:
            raise ValueError(
                f"learning_rate_factor: got {learning_rate_factor}; expected a positive number (frozen = true trains "
                "nothing)."
            )
        if unfreeze_after is not None and (not unfreeze_after or min(unfreeze_after) < 0):
            raise ValueError(
                f"unfreeze_after: got {unfreeze_after}; expected numbers of steps, 0 or more, one for each layer from "
                "the top down, such as [0, 500, 1000]; or null to train all layers from the start."
            )
        self.learning_rate_factor = learning_rate_factor
        self.unfreeze_after = unfreeze_after
        self.steps = 0
        self._batch: TrainingBatch | None = None
        self._waiting: Callable[[], None] | None = None  # a step to be taken once the batch's gradients are there

    def restart(self, bilm: BiLM) -> None:
        """Begin anew: at step 0, with the weights of the biLM's source if training has changed them.

        Raises:
            ValueError: `unfreeze_after` lists more layers than there are.
        """
        self._batch = self._waiting = None
        if self.steps:
            bilm.forget()
        self.steps = 0
        self.unfreeze(bilm.model)

    def is_open(self, handed: HandedLayers | None) -> bool:
        """Whether gradients of these layers may still come."""
        return handed is not None and handed.batch is not None and handed.batch is self._batch

    def read(
        self,
        bilm: BiLM,
        docs: Sequence[Doc],
        *,
        listeners: Sequence[ElmoListener],
        record: Callable[[float], None],
    ) -> list[HandedLayers]:
        """Compute the layers of docs in a way that they can be backpropagated to.

        Args:
            bilm: the biLM.
            docs: the docs of one update.
            listeners: those that may send gradients.
            record: called with the squared norm of each gradient.
        """
        self._settle()
        self.unfreeze(bilm.model)
        self._batch = batch = TrainingBatch(
            model=bilm.model,
            docs=docs,
            max_words_per_batch=bilm.max_words_per_batch,
            expected=listeners,
            complete=self._settle,
            record=record,
        )
        return [HandedLayers(layers, batch, index) for index, layers in enumerate(batch.layers)]

    def finish_update(self, bilm: BiLM, optimizer: Optimizer) -> None:
        """Take a step, at once or when the gradients are there.

        `spacy train` asks for it when all components have learnt from the batch, `nlp.update(examples, sgd=...)` before
        the listeners have.
        """
        if self._batch is not None and not self._batch.has_gradient:
            self._waiting = lambda: self._step(bilm, optimizer)
            return
        self._settle()
        self._step(bilm, optimizer)

    def _settle(self) -> None:
        """Backpropagate what has been sent: by all listeners, or by those that learnt from the last batch."""
        if self._batch is not None:
            self._batch.backward()
            self._batch = None
        if self._waiting is not None:
            step, self._waiting = self._waiting, None
            step()

    def _step(self, bilm: BiLM, optimizer: Optimizer) -> None:
        if any(parameter.grad is not None for parameter in bilm.model.parameters()):
            bilm.finish_update(optimizer, lr_scale=self.learning_rate_factor)
        self.steps += 1

    def __getstate__(self) -> dict[str, Any]:
        """A batch under way stays where it is."""
        return {**self.__dict__, "_batch": None, "_waiting": None}

    def unfreeze(self, model: ElmoModel) -> None:
        """Let those parameters learn whose turn has come.

        Raises:
            ValueError: `unfreeze_after` lists more layers than there are.
        """
        groups = parameters_from_the_top(model)
        after = [0] * len(groups) if self.unfreeze_after is None else self.unfreeze_after
        if len(after) > len(groups):
            raise ValueError(
                f"unfreeze_after: got {len(after)} entries; expected at most {len(groups)}, the last one for the token "
                "layer."
            )
        model.requires_grad_(False)  # the model's own scalar mix too: listeners have their own
        for group, step in zip(groups, after, strict=False):
            for parameter in group:
                parameter.requires_grad_(self.steps >= step)


def parameters_from_the_top(model: ElmoModel) -> list[list[nn.Parameter]]:
    """The parameters of each layer, from the top biLSTM layer down to the character CNN."""
    return [list(layer.parameters()) for layer in [*reversed(list(model.layers)), model.character_cnn]]
