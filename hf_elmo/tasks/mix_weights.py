"""What a head has learnt of the biLM's layers, from the model or from its folder."""

from __future__ import annotations

from pathlib import Path

import torch
from huggingface_hub.constants import SAFETENSORS_SINGLE_FILE
from safetensors import SafetensorError, safe_open
from torch import Tensor

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.scalar_mix import ScalarMix
from hf_elmo.task_model import ElmoTaskModel

Weights = tuple[list[float | None], float]
_INPUT, _OUTPUT = "elmo.scalar_mix", "output_scalar_mix"


def learnt_mixes(model: ElmoTaskModel, task: str) -> dict[str, Weights]:
    """The shares of the layers and γ, as `hf_elmo.layer_weights.show_layer_weights` takes them; of a baseline none.

    Args:
        model: a head.
        task: what it is called; with two mixes `TASK: input` and `TASK: output`.
    """
    mixes = {name: mix for name, mix in model.named_modules() if isinstance(mix, ScalarMix)}
    found = {name: (mix.weights.detach(), mix.gamma.detach()) for name, mix in mixes.items()}
    return _named(found, model.config, task)


def saved_mixes(folder: str | Path, task: str) -> dict[str, Weights]:
    """As `learnt_mixes`, of a head's folder; reads no other weights.

    Raises:
        OSError: no such folder.
        ValueError: it holds no ELMo model, or one without a mix.
    """
    folder = Path(folder)
    path = folder / SAFETENSORS_SINGLE_FILE
    if not path.is_file() or not (folder / "config.json").is_file():
        raise FileNotFoundError(f"{folder}: holds no config.json and {path.name}; expected the folder of a model.")
    found = {}
    try:
        with safe_open(path, "pt") as file:
            names = set(file.keys())
            for name in (_INPUT, _OUTPUT, "scalar_mix"):
                if f"{name}.weights" in names:
                    found[name] = (file.get_tensor(f"{name}.weights"), file.get_tensor(f"{name}.gamma"))
    except SafetensorError as error:
        raise ValueError(f"{path}: cannot be read ({error}); copy it again.") from error
    if not found:
        raise ValueError(f"{folder}: got a model without a scalar mix; expected a head on ELMo.")
    return _named(found, ElmoConfig.from_pretrained(folder), task)


def _named(found: dict[str, tuple[Tensor, Tensor]], config: ElmoConfig, task: str) -> dict[str, Weights]:
    weights = {}
    for name, (logits, gamma) in found.items():
        layers = range(config.num_hidden_layers + 1) if config.mix_layers is None else config.mix_layers
        spread: list[float | None] = [None] * (config.num_hidden_layers + 1)
        for layer, share in zip(layers, torch.softmax(logits.double(), dim=0).tolist(), strict=True):
            spread[layer] = share
        at_output = name == _OUTPUT or config.elmo_placement == "output"
        weights[f"{task}: {'output' if at_output else 'input'}" if len(found) > 1 or at_output else task] = (
            spread,
            gamma.item(),
        )
    return weights
