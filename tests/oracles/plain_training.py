"""The training loss of the biLM computed the plain way: the baseline of the benchmark, and an oracle of the fast way.

As the original does it: the character CNN on all C characters of every position, then for each direction and layer a
Python loop over time through which autograd differentiates step by step.  Only the parameters are the model's, and its
softmax, so that both ways draw the same negatives.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from hf_elmo import ElmoForPreTraining
from hf_elmo.initial_state import ElmoState
from hf_elmo.projected_lstm import ProjectedLSTM


def plain_lm_loss(
    model: ElmoForPreTraining,
    character_ids: Tensor,
    labels: Tensor,
    backward_character_ids: Tensor,
    backward_labels: Tensor,
    state: ElmoState,
) -> tuple[Tensor, ElmoState]:
    """Mean loss of both directions in nats per word, and the state for the next batch; dropout as in the paper's code.

    Shape:
        character_ids, backward_character_ids (B, T, C), labels, backward_labels (B, T)
    """
    config, parameters = model.config, dict(model.named_parameters())
    losses, cells, hiddens = [], [], []
    streams = (character_ids, labels), (backward_character_ids, backward_labels)
    for direction, (ids, words) in enumerate(streams):
        x = _token_vectors(ids, parameters, config)  # (B, T, P)
        for depth in range(config.num_hidden_layers):
            x = F.dropout(x, config.dropout, model.training)
            layer = model.elmo.layers[depth]
            lstm = (layer.forward_lstm, layer.backward_lstm)[direction]
            output, cell, hidden = _lstm(lstm, x, state.cell[depth, direction], state.hidden[depth, direction])
            x = output + x if depth > 0 and config.use_skip_connections else output
            cells.append(cell)
            hiddens.append(hidden)
        top = F.dropout(x, config.dropout, model.training)
        losses.append(model.lm_head.loss(top, words))
    L = config.num_hidden_layers
    final = ElmoState(
        *(torch.stack([torch.stack(parts[:L]), torch.stack(parts[L:])], dim=1) for parts in (cells, hiddens))
    )
    return (losses[0] + losses[1]) / 2, final


def _token_vectors(ids: Tensor, parameters: dict[str, Tensor], config) -> Tensor:
    path = "elmo.character_cnn"
    characters = F.embedding(ids.flatten(0, 1), parameters[f"{path}.embedding.weight"]).transpose(1, 2)  # (N, d, C)
    activation = {"relu": torch.relu, "tanh": torch.tanh}[config.character_activation]
    filters = []
    for i in range(len(config.character_filters)):
        W, b = (parameters[f"{path}.convolutions.{i}.{name}"] for name in ("weight", "bias"))
        filters.append(activation(F.conv1d(characters, W, b).max(dim=-1).values))  # (N, count)
    x = torch.cat(filters, dim=-1)  # (N, n_f)
    for k in range(config.num_highway_layers):
        carry, transform = (
            F.linear(
                x, parameters[f"{path}.highways.{k}.{part}.weight"], parameters[f"{path}.highways.{k}.{part}.bias"]
            )
            for part in ("carry", "transform")
        )
        gate = torch.sigmoid(carry)
        x = gate * torch.relu(transform) + (1 - gate) * x
    if f"{path}.projection.weight" in parameters:
        x = F.linear(x, parameters[f"{path}.projection.weight"], parameters[f"{path}.projection.bias"])
    return x.view(*ids.shape[:2], -1)  # (B, T, P)


def _lstm(lstm: ProjectedLSTM, x: Tensor, c: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x (B, T, P), c (B, D), h (B, P) → outputs (B, T, P), c, h"""
    outputs = []
    for t in range(x.shape[1]):
        z = F.linear(torch.cat([x[:, t], h], dim=1), lstm.gates.weight, lstm.gates.bias)  # (B, 4D)
        i, j, f, o = z.chunk(4, dim=1)
        c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(j)
        if lstm.cell_clip is not None:
            c = c.clamp(-lstm.cell_clip, lstm.cell_clip)
        h = torch.sigmoid(o) * torch.tanh(c)
        if lstm.projection is not None:
            h = F.linear(h, lstm.projection.weight)
            if lstm.projection_clip is not None:
                h = h.clamp(-lstm.projection_clip, lstm.projection_clip)
        outputs.append(h)
    return torch.stack(outputs, dim=1), c, h
