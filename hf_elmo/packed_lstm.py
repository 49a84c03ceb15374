"""`ProjectedLSTM` for inference: a packed batch that shrinks as sequences end, in place, one product a step."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from hf_elmo.lstm_gradient import FORGET_BIAS
from hf_elmo.prepacked_linear import Linear, Precision, can_prepack, linear
from hf_elmo.projected_lstm import ProjectedLSTM


class _Shares(NamedTuple):
    """What inputs and hidden state each contribute to the gates.

    Attributes:
        inputs: (N, P) → (N, 4D), with the bias.
        hidden: (P, 4D), the weights of h in the layout that is twice as fast for a single row.
    """

    inputs: Linear
    hidden: Tensor


class PackedLSTM:
    """One direction of one layer, its weights laid out for reading many steps.

    Where weights can be laid out beforehand, a step is one product of [x; h] with all gates.  Elsewhere, and for a
    single sequence, whose speed is that of reading the weights from memory, the inputs' share of the gates is computed
    for many steps at once, and a step reads the weights of h only.  Both sum the same products, in another order; lower
    precisions, which round the sums, have the first way only, so that a sentence's batch mates never tell.

    Args:
        lstm: what is to be computed; its weights are not followed when they change.
        dtype: of inputs, outputs and cell: float32 or float64.
        precision: of the products.
    """

    def __init__(self, lstm: ProjectedLSTM, *, dtype: torch.dtype, precision: Precision) -> None:
        weight, bias = (x.detach().to(dtype) for x in (lstm.gates.weight, lstm.gates.bias))
        bias = bias.clone()  # (4D,)
        bias.chunk(4)[2].add_(FORGET_BIAS)
        projection_size = weight.shape[1] // 2
        self.cell_clip = lstm.cell_clip
        self.projection_clip = lstm.projection_clip
        self._projection_weight = (
            None if lstm.projection is None else lstm.projection.weight.detach().to(dtype)
        )  # (P, D)
        self._projection = None if self._projection_weight is None else linear(self._projection_weight, None, precision)
        self._prepacked = can_prepack(weight, precision)
        self._full_precision = precision == "fp32"
        self._bias = bias
        self._gates = linear(weight, bias, precision)
        self._input_weight = weight[:, :projection_size]  # (4D, P)
        self._hidden_weight = weight[:, projection_size:]
        self._shares: _Shares | None = None

    def read(self, inputs: Tensor, sizes: Sequence[int], cell: Tensor, hidden: Tensor) -> Tensor:
        """Read some steps of a packed batch, from left to right.

        Args:
            inputs: the sequences' words step by step: first all first words, then all second words, …; the sequences
                stand in the order of falling length, so that those that go on are always the first.
            sizes: how many sequences have a word at each step.
            cell, hidden: the state before the first of these steps; overwritten by that after the last.  Of sequences
                that end before it, hidden is not written: their last output is there.

        Shape:
            inputs (sum of sizes, P), cell (B, D), hidden (B, P), B ≥ sizes[0] → outputs (sum of sizes, P)
        """
        outputs = torch.empty_like(inputs)
        memory = torch.empty_like(cell)  # (B, D) what the projection reads
        if self._full_precision and (sizes[0] == 1 or not self._prepacked):
            self._read_by_shares(inputs, sizes, cell, hidden, memory, outputs)
        else:
            self._read_joined(inputs, sizes, cell, hidden, memory, outputs)
        hidden[: sizes[-1]] = outputs[len(outputs) - sizes[-1] :]
        return outputs

    def _read_joined(
        self, inputs: Tensor, sizes: Sequence[int], cell: Tensor, hidden: Tensor, memory: Tensor, outputs: Tensor
    ) -> None:
        """Each step one product, of rows [x; h] in which a step leaves its h for the next."""
        width = inputs.shape[1]
        rows = inputs.new_empty(len(inputs), 2 * width)  # (N, 2P)
        rows[:, :width] = inputs
        rows[: sizes[0], width:] = hidden[: sizes[0]]
        start = 0
        for size, following in zip(sizes, [*sizes[1:], 0], strict=True):
            end = start + size
            output = outputs[start:end]  # (n, P)
            self._step(self._gates(rows[start:end]), cell[:size], memory[:size], output, self._projection)
            rows[end : end + following, width:] = output[:following]
            start = end

    def _read_by_shares(
        self, inputs: Tensor, sizes: Sequence[int], cell: Tensor, hidden: Tensor, memory: Tensor, outputs: Tensor
    ) -> None:
        """The inputs' share of all these steps in one product; then each step adds that of h."""
        input_share, hidden_weight = self._both_shares()
        projection = None if self._projection is None else self._project
        from_inputs = input_share(inputs)  # (N, 4D)
        start = 0
        for size in sizes:
            end = start + size
            gates = from_inputs[start:end].addmm_(hidden[:size], hidden_weight)  # (n, 4D)
            hidden = outputs[start:end]  # (n, P)
            self._step(gates, cell[:size], memory[:size], hidden, projection)
            start = end

    def _both_shares(self) -> _Shares:
        """Laid out when they are first needed, since most batches do without."""
        if self._shares is None:
            inputs = linear(self._input_weight, self._bias, "fp32")
            self._shares = _Shares(inputs, self._hidden_weight.t().contiguous())
        return self._shares

    def _project(self, memory: Tensor) -> Tensor:
        """(n, D) → (n, P); of a single row as a product with a vector, which is twice as fast as one of matrices."""
        assert self._projection is not None
        assert self._projection_weight is not None
        if len(memory) == 1:
            return torch.mv(self._projection_weight, memory[0]).unsqueeze(0)
        return self._projection(memory)

    def _step(self, gates: Tensor, cell: Tensor, memory: Tensor, output: Tensor, projection: Linear | None) -> None:
        """Gates (n, 4D) are used up; cell (n, D), memory (n, D) and output (n, P) are overwritten."""
        i, j, f, o = gates.chunk(4, dim=1)  # (n, D) each
        i.sigmoid_(), j.tanh_(), gates[:, 2 * cell.shape[1] :].sigmoid_()
        cell.mul_(f).addcmul_(i, j)
        if self.cell_clip is not None:
            cell.clamp_(-self.cell_clip, self.cell_clip)  # before it is read and before it is carried
        torch.tanh(cell, out=memory).mul_(o)
        if projection is None:
            output.copy_(memory)
        elif self.projection_clip is None:
            output.copy_(projection(memory))
        else:
            torch.clamp(projection(memory), -self.projection_clip, self.projection_clip, out=output)
