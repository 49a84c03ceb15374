"""What the LSTMs know before the first word: nothing, one stored state, or what the caller carries over."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from hf_elmo.configuration_elmo import ElmoConfig


class ElmoState(NamedTuple):
    """State of every layer (L) and direction (0 = forward, 1 = backward) for each row of a batch.

    Attributes:
        cell: (L, 2, B, D)
        hidden: (L, 2, B, P)
    """

    cell: Tensor
    hidden: Tensor

    @classmethod
    def zeros(cls, config: ElmoConfig, batch_size: int, *, like: Tensor) -> "ElmoState":
        """The state of an LSTM that has read nothing, with the dtype and device of `like`."""
        shape = (config.num_hidden_layers, 2, batch_size)
        return cls(like.new_zeros(*shape, config.lstm_size), like.new_zeros(*shape, config.projection_size))

    @property
    def batch_size(self) -> int:
        """Rows B."""
        return self.cell.shape[2]

    def detach(self) -> "ElmoState":
        """The same numbers without their history, for truncated backpropagation through time."""
        return ElmoState(self.cell.detach(), self.hidden.detach())

    def rows(self, start: int, stop: int) -> "ElmoState":
        """Rows start..stop-1 of the batch."""
        return ElmoState(self.cell[:, :, start:stop], self.hidden[:, :, start:stop])


class InitialState(nn.Module):
    """The state in which each sentence is read where the caller hands none over.

    With `config.initial_state == "warm"` the state is stored with the weights, one vector per layer and direction;
    otherwise it is zero and nothing is stored.
    """

    cell: Tensor
    hidden: Tensor

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.config = config
        if config.initial_state == "warm":
            shape = (config.num_hidden_layers, 2)
            self.register_buffer("cell", torch.zeros(*shape, config.lstm_size))
            self.register_buffer("hidden", torch.zeros(*shape, config.projection_size))

    def forward(self, batch_size: int, like: Tensor) -> ElmoState:
        """The initial state of `batch_size` rows, with the dtype and device of `like`."""
        if self.config.initial_state != "warm":
            return ElmoState.zeros(self.config, batch_size, like=like)
        cell, hidden = (
            stored.to(like).unsqueeze(2).expand(-1, -1, batch_size, -1) for stored in (self.cell, self.hidden)
        )
        return ElmoState(cell, hidden)

    @torch.no_grad()
    def store(self, state: ElmoState) -> None:
        """Keep the mean over a state's rows as the warm state.

        Raises:
            ValueError: the configuration's initial state is not "warm".
        """
        if self.config.initial_state != "warm":
            raise ValueError(
                f"initial_state: got {self.config.initial_state!r}; storing a state needs a model configured with "
                'initial_state="warm".'
            )
        self.cell.copy_(state.cell.mean(dim=2))
        self.hidden.copy_(state.hidden.mean(dim=2))


class CarriedState:
    """The reference's memory between batches, as an object the caller owns instead of an attribute of the model.

    Rows are matched by position: a smaller batch reads and updates the first rows only; rows that a larger batch adds
    start at zero.

    Example:
        ```python
        carried = CarriedState()
        for batch in batches:
            output = model(**batch, state=carried.take(model, len(batch["character_ids"])))
            carried.put(output.state)
        ```
    """

    def __init__(self) -> None:
        self._state: ElmoState | None = None

    def take(self, model: PreTrainedModel, batch_size: int) -> ElmoState:
        """The carried state of the first `batch_size` rows, zero for rows not seen yet."""
        like = next(model.parameters())
        assert isinstance(model.config, ElmoConfig)
        fresh = ElmoState.zeros(model.config, batch_size, like=like)
        if self._state is None:
            return fresh
        known = min(batch_size, self._state.batch_size)
        return ElmoState(
            *(
                torch.cat([old[:, :, :known].to(new), new[:, :, known:]], dim=2)
                for old, new in zip(self._state, fresh, strict=True)
            )
        )

    def put(self, state: ElmoState) -> None:
        """Remember the final state of a batch, keeping the rows it did not have."""
        state = state.detach()
        if self._state is None:
            self._state = state
            return
        self._state = ElmoState(
            *(
                torch.cat([new, old[:, :, state.batch_size :].to(new)], dim=2)
                for old, new in zip(self._state, state, strict=True)
            )
        )
