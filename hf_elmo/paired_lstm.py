"""Both directions of a layer on one sentence: each step is one product for the two of them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from hf_elmo.fused_cell import fused_cell
from hf_elmo.lstm_cell import advance_cell, with_forget_bias
from hf_elmo.prepacked_linear import linear
from hf_elmo.projected_lstm import ProjectedLSTM


class PairedLSTM:
    """The forward and the backward LSTM of a layer, their weights laid out for reading one sentence.

    A single sentence is as fast as the weights are read from memory.  The inputs' share of the gates is computed for
    many steps at once, so that a step reads the weights of h only; and both directions take their steps together, so
    that each of two threads reads the weights of one.

    Args:
        lstms: the forward and the backward one; their weights are not followed when they change.
        dtype: of inputs, outputs and cell: float32 or float64.
    """

    def __init__(self, lstms: Sequence[ProjectedLSTM], *, dtype: torch.dtype) -> None:
        weights = [lstm.gates.weight.detach().to(dtype) for lstm in lstms]  # (4D, 2P) each
        projection_size = weights[0].shape[1] // 2
        self.cell_clip = lstms[0].cell_clip
        self.projection_clip = lstms[0].projection_clip
        self._input_shares = [
            linear(weight[:, :projection_size], with_forget_bias(lstm.gates.bias.detach().to(dtype)), "fp32")
            for weight, lstm in zip(weights, lstms, strict=True)
        ]
        # In this layout a product with a single row is twice as fast.
        self._hidden_weights = torch.stack([weight[:, projection_size:].t() for weight in weights])  # (2, P, 4D)
        projections = [lstm.projection.weight.detach().to(dtype) for lstm in lstms if lstm.projection is not None]
        self._projections = torch.stack(projections).transpose(1, 2) if projections else None  # (2, D, P)
        fused = fused_cell(weights[0].device, gates=dtype, cell=dtype, memory=dtype, clip=self.cell_clip)
        self._advance_cell = fused or advance_cell

    def read(self, inputs: Tensor, cell: Tensor, hidden: Tensor) -> Tensor:
        """Read some steps, those of the backward direction from the sentence's end.

        Args:
            inputs: of each step and direction.
            cell, hidden: the state before the first of these steps; overwritten by that after the last.

        Shape:
            inputs (n, 2, P), cell (2, 1, D), hidden (2, 1, P) → outputs (n, 2, P)
        """
        shares = [share(inputs[:, direction].contiguous()) for direction, share in enumerate(self._input_shares)]
        gates = torch.stack(shares, dim=1).unsqueeze(2)  # (n, 2, 1, 4D)
        outputs = torch.empty_like(inputs).unsqueeze(2)  # (n, 2, 1, P)
        memory = torch.empty_like(cell)  # (2, 1, D) what the projection reads
        before = hidden
        for gate, output in zip(gates, outputs, strict=True):  # (2, 1, 4D), (2, 1, P)
            gate.baddbmm_(before, self._hidden_weights)
            self._advance_cell(gate, cell, memory, cell_clip=self.cell_clip)
            self._project(memory, output)
            before = output
        hidden.copy_(before)
        return outputs.squeeze(2)

    def _project(self, memory: Tensor, output: Tensor) -> None:
        """(2, 1, D) → (2, 1, P)"""
        if self._projections is None:
            output.copy_(memory)
            return
        torch.bmm(memory, self._projections, out=output)
        if self.projection_clip is not None:
            output.clamp_(-self.projection_clip, self.projection_clip)
