"""The first updates of an adaptation, in which only the softmax is trained."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from hf_elmo.modeling_elmo import ElmoForPreTraining


class HeadWarmUp(TrainerCallback):
    """Leaves the biLM as it is for the first updates, so that a new softmax does not pull it along.

    The optimiser knows the biLM's parameters from the start, and passes over them while they have no gradient; whether
    they have one depends on the number of the update alone, so that a resumed run goes on as it would have.

    Args:
        model: whose softmax is trained first.
        steps: updates of the softmax alone.
    """

    def __init__(self, model: ElmoForPreTraining, steps: int) -> None:
        self.body = model.elmo
        self.steps = steps

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Freezes or frees the biLM before an update."""
        self.body.requires_grad_(state.global_step >= self.steps)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Frees it in the end in any case."""
        self.body.requires_grad_(True)
