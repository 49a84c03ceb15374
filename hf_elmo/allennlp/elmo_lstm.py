"""The biLM of a drop-in `Elmo`, and the state it carries from batch to batch where it is asked to."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hf_elmo.initial_state import CarriedState
from hf_elmo.modeling_elmo import ElmoModel


class AllLayers(nn.Module):
    """Stands in the place of a model's scalar mix and returns the layers as they are, for mixes outside the model.

    Transformers' own way, `output_hidden_states`, leaves hooks in the model that cannot be pickled.
    """

    def forward(self, hidden_states: Sequence[Tensor], mask: Tensor) -> Tensor:
        """Shape: L + 1 tensors (B, T, 2P), mask (B, T) → (L + 1, B, T, 2P)."""
        return torch.stack(list(hidden_states))


class ElmoLstm(nn.Module):
    """The model and its memory between batches.

    Args:
        model: loses its own mix.
        stateful: see below.

    Attributes:
        model: the biLM.
        stateful: begin row k of a batch with the final state of row k of the last batch that had one, as the reference
            did by default. Then vectors depend on the batches before, and one object must not serve two threads.
    """

    def __init__(self, model: ElmoModel, *, stateful: bool = False) -> None:
        super().__init__()
        model.add_module("scalar_mix", AllLayers())
        self.model = model
        self.stateful = stateful
        self._carried = CarriedState()

    def forward(self, character_ids: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        """All layers of sentences with boundaries.

        Shape:
            character_ids (B, T, C), mask (B, T) → L + 1 tensors (B, T, 2P)
        """
        trained = any(parameter.requires_grad for parameter in self.model.parameters())
        with torch.set_grad_enabled(trained and torch.is_grad_enabled()):
            state = self._carried.take(self.model, len(mask)) if self.stateful else None
            output = self.model(character_ids, mask, state=state, return_dict=True)
        if self.stateful:
            self._carried.put(output.state)
        layers: Tensor = output.last_hidden_state  # (L + 1, B, T, 2P)
        return layers.unbind()

    def reset_states(self) -> None:
        """Forget what was carried: the next batch begins at zero."""
        self._carried = CarriedState()
