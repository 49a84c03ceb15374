"""bilm-tf's training, restated plainly on the variables of its checkpoint: full softmax, no dropout, Adagrad."""

import json
from pathlib import Path

import h5py
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

Variables = dict[str, np.ndarray]


def adagrad_updates(folder: Path, count: int) -> tuple[Variables, Variables]:
    """Variables and accumulators after the first updates of the run recorded in `folder`."""
    options = json.loads((folder / "train_options.json").read_text())
    variables: dict[str, Tensor] = {}
    with h5py.File(folder / "train_before.hdf5") as file:

        def read(name: str, item: object) -> None:
            if isinstance(item, h5py.Dataset):
                variables[name] = torch.from_numpy(item[()]).requires_grad_()

        file.visititems(read)
    sums = {name: torch.ones_like(values) for name, values in variables.items()}
    recorded = np.load(folder / "train_steps.npz")
    states = [_zero_state(options) for _ in range(2)]
    for step in range(count):
        losses = []
        for direction, suffix in enumerate(("", "_reverse")):
            characters = torch.from_numpy(recorded[f"{step}/tokens_characters{suffix}"]).long()  # (B, T, C), raw ids
            targets = torch.from_numpy(recorded[f"{step}/next_token_id{suffix}"]).long()  # (B, T)
            x = _token_vectors(characters, options, variables)  # (B, T, P)
            top, states[direction] = _read(x, states[direction], direction, options, variables)
            logits = top @ variables["lm/softmax/W"].T + variables["lm/softmax/b"]  # (B, T, V)
            losses.append(F.cross_entropy(logits.flatten(0, 1), targets.flatten()))
        loss = 0.5 * sum(losses) * options["unroll_steps"]
        gradients = torch.autograd.grad(loss, list(variables.values()))
        norm = torch.sqrt(sum(gradient.square().sum() for gradient in gradients))
        scale = options["all_clip_norm_val"] / max(options["all_clip_norm_val"], norm.item())
        with torch.no_grad():
            for (name, values), gradient in zip(variables.items(), gradients, strict=True):
                sums[name] += (scale * gradient).square()
                values -= options["learning_rate"] * scale * gradient / sums[name].sqrt()
    return _numpy(variables), _numpy(sums)


def _token_vectors(characters: Tensor, options: dict, variables: dict[str, Tensor]) -> Tensor:
    x = variables["lm/char_embed"][characters.flatten(0, 1)].transpose(1, 2)  # (B*T, d, C)
    pooled = []
    for number in range(len(options["char_cnn"]["filters"])):
        kernel = variables[f"lm/CNN/W_cnn_{number}"][0].permute(2, 1, 0)  # (count, d, width)
        y = F.conv1d(x, kernel, variables[f"lm/CNN/b_cnn_{number}"])
        pooled.append(torch.relu(y.max(dim=2).values))
    v = torch.cat(pooled, dim=1)
    for number in range(options["char_cnn"]["n_highway"]):
        path = f"lm/CNN_high_{number}"
        gate = torch.sigmoid(v @ variables[f"{path}/W_carry"] + variables[f"{path}/b_carry"])
        v = gate * torch.relu(v @ variables[f"{path}/W_transform"] + variables[f"{path}/b_transform"]) + (1 - gate) * v
    v = v @ variables["lm/CNN_proj/W_proj"] + variables["lm/CNN_proj/b_proj"]
    return v.unflatten(0, characters.shape[:2])  # (B, T, P)


def _read(
    x: Tensor, states: list[tuple[Tensor, Tensor]], direction: int, options: dict, variables: dict[str, Tensor]
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """The top layer (B, T, P), and the states without their history."""
    lstm, final = options["lstm"], []
    for layer, (c, h) in enumerate(states):
        path = f"lm/RNN_{direction}/rnn/multi_rnn_cell/cell_{layer}/lstm_cell"
        outputs = []
        for t in range(x.shape[1]):
            z = torch.cat([x[:, t], h], dim=1) @ variables[f"{path}/kernel"] + variables[f"{path}/bias"]
            i, j, f, o = z.chunk(4, dim=1)
            c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(j)
            c = c.clamp(-lstm["cell_clip"], lstm["cell_clip"])
            h = (torch.sigmoid(o) * torch.tanh(c)) @ variables[f"{path}/projection/kernel"]
            h = h.clamp(-lstm["proj_clip"], lstm["proj_clip"])
            outputs.append(h)
        y = torch.stack(outputs, dim=1)
        x = y + x if layer > 0 else y
        final.append((c.detach(), h.detach()))
    return x, final


def _zero_state(options: dict) -> list[tuple[Tensor, Tensor]]:
    rows, lstm = options["batch_size"], options["lstm"]
    return [
        (torch.zeros(rows, lstm["dim"]), torch.zeros(rows, lstm["projection_dim"])) for _ in range(lstm["n_layers"])
    ]


def _numpy(tensors: dict[str, Tensor]) -> Variables:
    return {name: values.detach().numpy() for name, values in tensors.items()}
