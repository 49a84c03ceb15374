"""The reference's way of running ELMo, in plain PyTorch: the baseline of the benchmarks.

As AllenNLP does it: the character CNN on all C characters of every position of the padded batch, then for
each direction and layer a Python loop over time, on the batch sorted by length and shrinking as short
sentences end. As in AllenNLP, too, the forget bias is folded in and the highway gates what is carried.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .numpy_elmo import sentence_to_ids


class BatchState(NamedTuple):
    """What a batch hands to the next, row by row: `cell` (L, 2, B, D) and `hidden` (L, 2, B, P)."""

    cell: Tensor
    hidden: Tensor


class PlainTorchElmo:
    """ELMo with the options and weights of the published files (see `numpy_elmo`)."""

    def __init__(
        self,
        options: Mapping[str, Any],
        weights: Mapping[str, np.ndarray],
        *,
        dtype: torch.dtype = torch.float32,
        device: str = "cpu",
    ) -> None:
        def tensor(name: str) -> Tensor:
            return torch.as_tensor(np.asarray(weights[name])).to(device, dtype)

        lstm, cnn = options["lstm"], options["char_cnn"]
        self.sizes = lstm["n_layers"], lstm["dim"], lstm["projection_dim"]
        self.use_skip_connections = lstm["use_skip_connections"]
        self.max_characters = cnn.get("max_characters_per_token", 50)
        self.activation = {"relu": torch.relu, "tanh": torch.tanh}[cnn["activation"]]
        self.embedding = F.pad(tensor("char_embed"), (0, 0, 1, 0))  # (262, d), row 0 = no word
        self.convolutions = [
            (tensor(f"CNN/W_cnn_{i}")[0].permute(2, 1, 0).contiguous(), tensor(f"CNN/b_cnn_{i}"))
            for i in range(len(cnn["filters"]))
        ]
        self.highways = []
        for path in (f"CNN_high_{k}" for k in range(cnn.get("n_highway") or 0)):
            W = torch.cat([tensor(f"{path}/W_transform"), -tensor(f"{path}/W_carry")], dim=-1)  # (n_f, 2 n_f)
            b = torch.cat([tensor(f"{path}/b_transform"), -tensor(f"{path}/b_carry")])
            self.highways.append((W, b))
        self.projection = None
        if "CNN_proj/W_proj" in weights:
            self.projection = tensor("CNN_proj/W_proj").T.contiguous(), tensor("CNN_proj/b_proj")
        self.lstms = {}
        for layer in range(lstm["n_layers"]):
            for direction in range(2):
                path = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
                W_P = tensor(f"{path}/W_P_0") if f"{path}/W_P_0" in weights else None
                clips = lstm.get("cell_clip"), lstm.get("proj_clip")
                self.lstms[layer, direction] = _Lstm(tensor(f"{path}/W_0"), tensor(f"{path}/B"), W_P, *clips)

    def embed(
        self, sentences: Sequence[Sequence[str]], batch_size: int = 32, stateful: bool = False
    ) -> list[np.ndarray]:
        """All layers (L+1, n, 2P) of each sentence, boundaries stripped, batched in the order given.

        The first batch starts at zero; `stateful` hands each state to the next batch, as the reference does.
        """
        embedded, state = [], None
        for start in range(0, len(sentences), batch_size):
            batch = sentences[start : start + batch_size]
            layers, state = self.embed_batch(batch, state if stateful else None)
            embedded += layers
        return embedded

    @torch.no_grad()
    def embed_batch(
        self, sentences: Sequence[Sequence[str]], state: BatchState | None = None
    ) -> tuple[list[np.ndarray], BatchState]:
        """The layers of each sentence and the state for the next batch; rows without one start at zero."""
        order = sorted(range(len(sentences)), key=lambda row: -len(sentences[row]))
        lengths = torch.tensor([len(sentences[row]) + 2 for row in order])
        ids = torch.zeros(len(order), int(lengths[0]), self.max_characters, dtype=torch.long)
        for row, length, place in zip(order, lengths, ids, strict=True):
            place[:length] = torch.from_numpy(sentence_to_ids(sentences[row], self.max_characters))
        x = self._token_vectors(ids.to(self.embedding.device))  # (B, T, P)
        layers, state = self._bilm(x, lengths, order, self._with_rows(state, len(order)))  # (L+1, B, T, 2P)
        stripped = {
            row: layers[:, place, 1 : length - 1].cpu().numpy()
            for place, (row, length) in enumerate(zip(order, lengths, strict=True))
        }
        return [stripped[row] for row in range(len(sentences))], state

    def _token_vectors(self, ids: Tensor) -> Tensor:
        characters = F.embedding(ids.flatten(0, 1), self.embedding).transpose(1, 2)  # (B*T, d, C)
        pooled = [F.conv1d(characters, W, b).max(dim=-1).values for W, b in self.convolutions]
        x = torch.cat([self.activation(y) for y in pooled], dim=-1)  # (B*T, n_f)
        for W, b in self.highways:
            transformed, gate = (x @ W + b).chunk(2, dim=-1)
            gate = torch.sigmoid(gate)
            x = gate * x + (1 - gate) * torch.relu(transformed)
        if self.projection is not None:
            x = F.linear(x, *self.projection)
        return x.view(*ids.shape[:2], -1)

    def _bilm(self, x: Tensor, lengths: Tensor, order: list[int], state: BatchState) -> tuple[Tensor, BatchState]:
        active = [int((lengths > t).sum()) for t in range(x.shape[1])]  # rows not yet at their end, at each t
        layers, inputs = [torch.cat([x, x], dim=-1)], [x, x]
        for layer in range(self.sizes[0]):
            for direction in range(2):
                cell, hidden = state.cell[layer, direction], state.hidden[layer, direction]  # as in the text
                output, cell[order], hidden[order] = self.lstms[layer, direction](
                    inputs[direction], active, cell[order], hidden[order], backward=direction == 1
                )
                residual = layer > 0 and self.use_skip_connections
                inputs[direction] = output + inputs[direction] if residual else output
            layers.append(torch.cat(inputs, dim=-1))
        return torch.stack(layers), state

    def _with_rows(self, state: BatchState | None, rows: int) -> BatchState:
        """A copy of `state`, extended by zeros to at least `rows` rows."""
        L, D, P = self.sizes
        if state is None:
            state = BatchState(self.embedding.new_zeros(L, 2, 0, D), self.embedding.new_zeros(L, 2, 0, P))
        missing = max(0, rows - state.cell.shape[2])
        return BatchState(*(F.pad(part, (0, 0, 0, missing)).clone() for part in state))


class _Lstm:
    """One direction of one layer, its gates in AllenNLP's order i, f, j, o."""

    def __init__(
        self, W: Tensor, B: Tensor, W_P: Tensor | None, cell_clip: float | None, proj_clip: float | None
    ) -> None:
        i, j, f, o = torch.cat([W, B[None]]).chunk(4, dim=1)
        gates = torch.cat([i, f, j, o], dim=1).T  # (4D, 2P + 1)
        P = len(W) // 2
        self.W_input, self.W_state = gates[:, :P].contiguous(), gates[:, P:-1].contiguous()
        self.bias = gates[:, -1].clone()
        self.bias[f.shape[1] : 2 * f.shape[1]] += 1
        self.W_P = None if W_P is None else W_P.T.contiguous()
        self.cell_clip, self.proj_clip = cell_clip, proj_clip

    def __call__(
        self, x: Tensor, active: list[int], c: Tensor, h: Tensor, *, backward: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """x (B, T, P), longest row first, `active` rows at each t; c (B, D) and h (B, P) are overwritten."""
        outputs = x.new_zeros(x.shape)
        for t in reversed(range(len(active))) if backward else range(len(active)):
            n = active[t]
            z = F.linear(x[:n, t], self.W_input) + F.linear(h[:n], self.W_state, self.bias)  # (n, 4D)
            i, f, j, o = z.chunk(4, dim=1)
            memory = torch.sigmoid(f) * c[:n] + torch.sigmoid(i) * torch.tanh(j)
            if self.cell_clip:
                memory = memory.clamp(-self.cell_clip, self.cell_clip)
            output = torch.sigmoid(o) * torch.tanh(memory)
            if self.W_P is not None:
                output = F.linear(output, self.W_P)
                if self.proj_clip:
                    output = output.clamp(-self.proj_clip, self.proj_clip)
            c[:n], h[:n], outputs[:n, t] = memory, output, output
        return outputs, c, h
