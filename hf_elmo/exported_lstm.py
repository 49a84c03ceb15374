"""The recurrence of an LSTM as one node of an exported graph, so that the graph holds for sentences of every length."""

from collections.abc import Callable

import torch
from torch import Tensor

# (gates (B, 4D), cell (B, D)) → next cell (B, D), next hidden (B, P)
Step = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def scanned_sequence(
    step: Step, from_inputs: Tensor, cell: Tensor, hidden: Tensor, hidden_weight: Tensor, step_mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """What [`ProjectedLSTM.step_by_step`][hf_elmo.projected_lstm.ProjectedLSTM] computes, without a loop of Python.

    A loop over the words would be unrolled, and its graph hold for one length only; `scan` is traced once.

    Shape:
        from_inputs (T, B, 4D), cell (B, D), hidden (B, P), hidden_weight (4D, P), step_mask (B, T) or None
        → outputs (B, T, P), cell (B, D), hidden (B, P)
    """
    from torch._higher_order_ops.scan import scan  # PyTorch has no public name for it yet

    num_steps, batch_size = from_inputs.shape[:2]
    if step_mask is None:
        step_mask = from_inputs.new_ones(batch_size, num_steps, dtype=torch.bool)

    def combine(carry: list[Tensor], word: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        cell, hidden = carry
        from_input, alive = word  # (B, 4D), (B, 1)
        next_cell, next_hidden = step(torch.addmm(from_input, hidden, hidden_weight.t()), cell)
        next_cell = torch.where(alive, next_cell, cell)
        next_hidden = torch.where(alive, next_hidden, hidden)
        # What is given out may not be what is carried.
        return [next_cell, next_hidden], next_hidden.clone()

    alive = step_mask.t().unsqueeze(-1)  # (T, B, 1)
    (cell, hidden), outputs = scan(combine, [cell.clone(), hidden.clone()], [from_inputs, alive])
    return outputs.transpose(0, 1), cell, hidden
