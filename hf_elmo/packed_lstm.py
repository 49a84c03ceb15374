"""`ProjectedLSTM` for inference: a packed batch that shrinks as sequences end, in place, one product a step."""

from collections.abc import Sequence

import torch
from torch import Tensor

from hf_elmo.fused_cell import fused_cell
from hf_elmo.lstm_cell import advance_cell, with_forget_bias
from hf_elmo.prepacked_linear import Precision, can_prepack, linear
from hf_elmo.projected_lstm import ProjectedLSTM


class PackedLSTM:
    """One direction of one layer, its weights laid out for reading many steps.

    Where weights can be laid out beforehand, a step is one product of [x; h] with all gates.  Elsewhere the inputs'
    share of the gates is computed for many steps at once, and a step multiplies h only.  Both sum the same products, in
    another order; lower precisions, which round the sums, have the first way only, so that the length of a batch never
    tells.

    Args:
        lstm: what is to be computed; its weights are not followed when they change.
        dtype: of inputs, outputs and cell: float32 or float64.
        precision: of the products.
    """

    def __init__(self, lstm: ProjectedLSTM, *, dtype: torch.dtype, precision: Precision) -> None:
        weight, bias = (x.detach().to(dtype) for x in (lstm.gates.weight, lstm.gates.bias))
        bias = with_forget_bias(bias)
        projection_size = weight.shape[1] // 2
        self.cell_clip = lstm.cell_clip
        self.projection_clip = lstm.projection_clip
        self._projection = (
            None if lstm.projection is None else linear(lstm.projection.weight.detach().to(dtype), None, precision)
        )
        self._joined = can_prepack(weight, precision) or precision != "fp32"
        if self._joined:
            self._gates = linear(weight, bias, precision)
        else:
            self._input_share = linear(weight[:, :projection_size], bias, precision)
            self._hidden_weight = weight[:, projection_size:].t().contiguous()  # (P, 4D)
        self._use_fused_cell(weight.device, dtype, torch.bfloat16 if precision == "bf16" else dtype)

    def _use_fused_cell(self, device: torch.device, dtype: torch.dtype, products: torch.dtype) -> None:
        """Where there is one; it reads and writes what products of lower precision do, which saves conversions."""
        memory = dtype if self._projection is None else products
        fused = fused_cell(device, gates=products, cell=dtype, memory=memory, clip=self.cell_clip)
        self._advance_cell = fused or advance_cell
        self._row_dtype, self._memory_dtype = (products, memory) if fused else (dtype, dtype)
        project = self._projection
        if project is not None and self._memory_dtype != dtype:  # the clip's bound is not to be rounded as products are
            self._projection = lambda read: project(read).to(dtype)

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
        memory = torch.empty_like(cell, dtype=self._memory_dtype)  # (B, D) what the projection reads
        read = self._read_joined if self._joined else self._read_by_shares
        read(inputs, sizes, cell, hidden, memory, outputs)
        hidden[: sizes[-1]] = outputs[len(outputs) - sizes[-1] :]
        return outputs

    def _read_joined(
        self, inputs: Tensor, sizes: Sequence[int], cell: Tensor, hidden: Tensor, memory: Tensor, outputs: Tensor
    ) -> None:
        """Each step one product, of rows [x; h] in which a step leaves its h for the next."""
        width = inputs.shape[1]
        rows = inputs.new_empty(len(inputs), 2 * width, dtype=self._row_dtype)  # (N, 2P)
        rows[:, :width] = inputs
        rows[: sizes[0], width:] = hidden[: sizes[0]]
        start = 0
        for size, following in zip(sizes, [*sizes[1:], 0], strict=True):
            end = start + size
            output = outputs[start:end]  # (n, P)
            self._step(self._gates(rows[start:end]), cell[:size], memory[:size], output)
            rows[end : end + following, width:] = output[:following]
            start = end

    def _read_by_shares(
        self, inputs: Tensor, sizes: Sequence[int], cell: Tensor, hidden: Tensor, memory: Tensor, outputs: Tensor
    ) -> None:
        """The inputs' share of all these steps in one product; then each step adds that of h."""
        from_inputs = self._input_share(inputs)  # (N, 4D)
        start = 0
        for size in sizes:
            end = start + size
            gates = from_inputs[start:end].addmm_(hidden[:size], self._hidden_weight)  # (n, 4D)
            hidden = outputs[start:end]  # (n, P)
            self._step(gates, cell[:size], memory[:size], hidden)
            start = end

    def _step(self, gates: Tensor, cell: Tensor, memory: Tensor, output: Tensor) -> None:
        """Gates (n, 4D) are used up; cell (n, D), memory (n, D) and output (n, P) are overwritten."""
        self._advance_cell(gates, cell, memory, cell_clip=self.cell_clip)
        if self._projection is None:
            output.copy_(memory)
        elif self.projection_clip is None:
            output.copy_(self._projection(memory))
        else:
            torch.clamp(self._projection(memory), -self.projection_clip, self.projection_clip, out=output)
