"""The projected LSTM over full sequences with a hand-written gradient, for training.

Autograd would form each weight's gradient once a time step; here the steps' gradients are kept and each weight's is one
matrix product over all of them.  `ProjectedLSTM` is the readable statement of what is computed, and its test oracle.

Under autocast matrix products are computed in its dtype; the state and everything elementwise keep that of the weights.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

FORGET_BIAS = 1.0  # added at run time; the files store the bias without it


def projected_lstm_sequence(
    from_inputs: Tensor,
    cell: Tensor,
    hidden: Tensor,
    hidden_weight: Tensor,
    projection: Tensor | None,
    *,
    cell_clip: float | None,
    projection_clip: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """`ProjectedLSTM.step_by_step` for sequences that all have T words.

    Shape:
        from_inputs (T, B, 4D), cell (B, D), hidden (B, P), hidden_weight (4D, P), projection (P, D) or None
        → outputs (T, B, P), cell (B, D), hidden (B, P)
    """
    device = from_inputs.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else from_inputs.dtype
    return _Sequence.apply(from_inputs, cell, hidden, hidden_weight, projection, cell_clip, projection_clip, dtype)


class _Sequence(Function):
    @staticmethod
    def forward(
        ctx: Any,
        from_inputs: Tensor,
        cell: Tensor,
        hidden: Tensor,
        hidden_weight: Tensor,
        projection: Tensor | None,
        cell_clip: float | None,
        projection_clip: float | None,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor, Tensor]:
        steps, batch, width = from_inputs.shape[0], *cell.shape
        from_hidden = _Product(hidden_weight.t(), dtype)
        project = None if projection is None else _Product(projection.t(), dtype)
        gates = torch.empty_like(from_inputs)  # (T, B, 4D) i, j, f, o after their activations
        cells = from_inputs.new_empty(steps + 1, batch, width)  # clipped, from before the first step on
        cell_tanhs = from_inputs.new_empty(steps, batch, width)
        memories = from_inputs.new_empty(steps, batch, width)  # what the projection reads
        hiddens = from_inputs.new_empty(steps + 1, *hidden.shape)
        cells[0], hiddens[0] = cell, hidden
        for t in range(steps):
            step = from_hidden.add_to(from_inputs[t], hiddens[t], out=gates[t])  # (B, 4D)
            i, j, f, o = step.chunk(4, dim=1)  # (B, D) each
            i.sigmoid_(), j.tanh_(), f.add_(FORGET_BIAS).sigmoid_(), o.sigmoid_()
            next_cell = torch.mul(f, cells[t], out=cells[t + 1]).addcmul_(i, j)
            if cell_clip is not None:
                next_cell.clamp_(-cell_clip, cell_clip)
            memory = torch.mul(o, torch.tanh(next_cell, out=cell_tanhs[t]), out=memories[t])
            if project is None:
                hiddens[t + 1] = memory
                continue
            hiddens[t + 1] = project(memory)
            if projection_clip is not None:
                hiddens[t + 1].clamp_(-projection_clip, projection_clip)
        ctx.save_for_backward(gates, cells, cell_tanhs, memories, hiddens, hidden_weight, projection)
        ctx.clips, ctx.dtype = (cell_clip, projection_clip), dtype
        return hiddens[1:].clone(), cells[-1].clone(), hiddens[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, d_cell: Tensor, d_hidden: Tensor) -> tuple[Tensor | None, ...]:
        """Backpropagation through time; a clip passes no gradient where it acted."""
        gates, cells, cell_tanhs, memories, hiddens, hidden_weight, projection = ctx.saved_tensors
        cell_clip, projection_clip = ctx.clips
        to_hidden = _Product(hidden_weight, ctx.dtype)
        to_memory = None if projection is None else _Product(projection, ctx.dtype)
        d_gates = torch.empty_like(gates)  # (T, B, 4D) before their activations
        d_projected = torch.empty_like(d_outputs)  # (T, B, P)
        d_hidden, d_cell = d_hidden.clone(), d_cell.clone()
        for t in reversed(range(len(gates))):
            torch.add(d_outputs[t], d_hidden, out=d_projected[t])  # (B, P)
            if to_memory is None:
                d_memory = d_projected[t]
            else:
                _stop_at_clip_(d_projected[t], hiddens[t + 1], projection_clip)
                d_memory = to_memory(d_projected[t])  # (B, D)
            i, j, f, o = gates[t].chunk(4, dim=1)  # (B, D) each
            d_i, d_j, d_f, d_o = d_gates[t].chunk(4, dim=1)
            tanh = cell_tanhs[t]
            d_o.copy_(torch.ops.aten.sigmoid_backward(d_memory * tanh, o))
            d_cell.add_(torch.ops.aten.tanh_backward(d_memory * o, tanh))
            _stop_at_clip_(d_cell, cells[t + 1], cell_clip)
            d_i.copy_(torch.ops.aten.sigmoid_backward(d_cell * j, i))
            d_j.copy_(torch.ops.aten.tanh_backward(d_cell * i, j))
            d_f.copy_(torch.ops.aten.sigmoid_backward(d_cell * cells[t], f))
            d_cell = d_cell * f
            d_hidden = to_hidden(d_gates[t])  # (B, P)
        d_hidden_weight = _weight_gradient(d_gates, hiddens[:-1], ctx.dtype)  # (4D, P)
        d_projection = None if projection is None else _weight_gradient(d_projected, memories, ctx.dtype)
        return d_gates, d_cell, d_hidden, d_hidden_weight, d_projection, None, None, None


class _Product:
    """Matrix products by one weight, which is brought to their dtype once.

    Args:
        weight: (n, m)
        dtype: what the product is computed in; results have the dtype of what is multiplied.
    """

    def __init__(self, weight: Tensor, dtype: torch.dtype) -> None:
        self.weight = weight.to(dtype)

    def __call__(self, x: Tensor) -> Tensor:
        """(B, n) → (B, m)"""
        return (x.to(self.weight.dtype) @ self.weight).to(x.dtype)

    def add_to(self, base: Tensor, x: Tensor, *, out: Tensor) -> Tensor:
        """Base (B, m), x (B, n) → base + x @ weight (B, m), written to `out`."""
        if x.dtype == self.weight.dtype:
            return torch.addmm(base, x, self.weight, out=out)
        return torch.add(base, x.to(self.weight.dtype) @ self.weight, out=out)


def _weight_gradient(d_outputs: Tensor, inputs: Tensor, dtype: torch.dtype) -> Tensor:
    """(T, B, n), (T, B, m) → (n, m), one product over all steps."""
    d_weight = d_outputs.flatten(0, 1).to(dtype).t() @ inputs.flatten(0, 1).to(dtype)
    return d_weight.to(d_outputs.dtype)


def _stop_at_clip_(gradient: Tensor, clipped: Tensor, bound: float | None) -> None:
    """Zero, in place, the gradient of values that lie at the bound."""
    if bound is not None:
        gradient.mul_(clipped.abs() < bound)
