"""One direction of one biLSTM layer: an LSTM with a projected recurrent state and clips (Sak et al. 2014)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hf_elmo.exported_lstm import scanned_sequence
from hf_elmo.lstm_gradient import FORGET_BIAS, projected_lstm_sequence


class ProjectedLSTM(nn.Module):
    r"""An LSTM that reads \(x_t\) of width P, keeps a cell of width D and a projected state of width P.

    .. math::
        i, j, f, o &= W [x_t; h_{t-1}] + b \\
        c_t &= \mathrm{clip}(σ(f + 1) c_{t-1} + σ(i) \tanh(j)) \\
        h_t &= \mathrm{clip}(W_P (σ(o) \tanh(c_t)))

    Gate order, sign and the missing +1 of the stored parameters are those of the original's files.  Where D equals P
    there is no projection, and then no clip of h either.

    Args:
        projection_size: P.
        lstm_size: D.
        cell_clip: bound on c, or None.
        projection_clip: bound on h, or None.
    """

    def __init__(
        self, *, projection_size: int, lstm_size: int, cell_clip: float | None, projection_clip: float | None
    ) -> None:
        super().__init__()
        self.cell_clip = cell_clip
        self.projection_clip = projection_clip
        self.gates = nn.Linear(2 * projection_size, 4 * lstm_size)
        self.projection = nn.Linear(lstm_size, projection_size, bias=False) if lstm_size != projection_size else None

    def forward(
        self, inputs: Tensor, cell: Tensor, hidden: Tensor, step_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Read every sequence of the batch from left to right.

        Args:
            inputs: word by word what this direction reads.
            cell, hidden: the state before the first word.
            step_mask: True where the sequence still has a word; a finished sequence keeps its state.  None: all
                sequences are full.

        Shape:
            inputs (B, T, P), cell (B, D), hidden (B, P), step_mask (B, T)
            → outputs (B, T, P), cell (B, D), hidden (B, P)
        """
        input_weight, hidden_weight = self.gates.weight.split(inputs.shape[-1], dim=1)  # (4D, P) each
        # The inputs of all steps at once: one large matrix product instead of T small ones.
        from_inputs = F.linear(inputs.transpose(0, 1), input_weight, self.gates.bias)  # (T, B, 4D)
        # Autocast computes products in a lower precision; the state stays in that of the weights.
        from_inputs = from_inputs.to(self.gates.weight.dtype)
        if step_mask is None and torch.is_grad_enabled() and not torch.compiler.is_compiling():
            outputs, cell, hidden = projected_lstm_sequence(
                from_inputs,
                cell,
                hidden,
                hidden_weight,
                None if self.projection is None else self.projection.weight,
                cell_clip=self.cell_clip,
                projection_clip=self.projection_clip,
            )
            return outputs.transpose(0, 1), cell, hidden
        return self.step_by_step(from_inputs, cell, hidden, step_mask)

    def step_by_step(
        self, from_inputs: Tensor, cell: Tensor, hidden: Tensor, step_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The recurrence, given the inputs' share of the gates.

        Shape:
            from_inputs (T, B, 4D), the rest as in `forward`
        """
        hidden_weight = self.gates.weight[:, -hidden.shape[-1] :]  # (4D, P)
        if torch.compiler.is_exporting():
            return scanned_sequence(self._step, from_inputs, cell, hidden, hidden_weight, step_mask)
        alive = step_mask.t().unsqueeze(-1).unbind() if step_mask is not None else None  # T × (B, 1)
        outputs = []
        for t, from_input in enumerate(from_inputs.unbind()):
            gates = torch.addmm(from_input, hidden, hidden_weight.t())  # (B, 4D)
            next_cell, next_hidden = self._step(gates, cell)
            if alive is not None:
                next_cell = torch.where(alive[t], next_cell, cell)
                next_hidden = torch.where(alive[t], next_hidden, hidden)
            cell, hidden = next_cell, next_hidden
            outputs.append(hidden)
        return torch.stack(outputs, dim=1), cell, hidden

    def _step(self, gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """(B, 4D), (B, D) → next cell (B, D), next hidden (B, P)."""
        i, j, f, o = gates.chunk(4, dim=1)  # (B, D) each
        cell = torch.sigmoid(f + FORGET_BIAS) * cell + torch.sigmoid(i) * torch.tanh(j)
        cell = _clip(cell, self.cell_clip)  # before it is read and before it is carried
        hidden = torch.sigmoid(o) * torch.tanh(cell)  # (B, D)
        if self.projection is None:
            return cell, hidden
        return cell, _clip(self.projection(hidden), self.projection_clip)


def _clip(x: Tensor, bound: float | None) -> Tensor:
    return x if bound is None else x.clamp(-bound, bound)
