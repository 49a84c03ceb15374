"""What a conversion carries from any format to the folder it writes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.model_source import without_progress_bars
from hf_elmo.modeling_elmo import ElmoForPreTraining, ElmoModel
from hf_elmo.ordinary_file import save_file
from hf_elmo.pretraining.adagrad_start import save_accumulators
from hf_elmo.tokenization_elmo import ElmoTokenizer

MORE_MIXES = "scalar_mixes.safetensors"


@dataclass
class Weights:
    """The weights of one model.

    Attributes:
        config: its sizes and options; `vocab_size` is set when the words are known.
        parameters: those of `ElmoModel` without its mix.
        head: `weight` (V, P) and `bias` (V,) of the softmax.
        mix: `weights` (L + 1,) and `gamma` (1,) of the scalar mix.
        more_mixes: all scalar mixes under their old names, where there is more than one.
        accumulators: Adagrad's sums by the names of `ElmoForPreTraining`.
        notes: what the user should know, a line each.
    """

    config: ElmoConfig
    parameters: dict[str, Tensor]
    head: dict[str, Tensor] | None = None
    mix: dict[str, Tensor] | None = None
    more_mixes: dict[str, Tensor] = field(default_factory=dict)
    accumulators: dict[str, Tensor] | None = None
    notes: list[str] = field(default_factory=list)


def build_model(weights: Weights) -> ElmoModel | ElmoForPreTraining:
    """The model in evaluation mode: a language model where there is a head."""
    # On meta nothing is drawn at random only to be replaced.
    with torch.device("meta"):
        model = ElmoModel(weights.config) if weights.head is None else ElmoForPreTraining(weights.config)
    if weights.head is None:
        mix = weights.mix or untrained_mix(weights.config)
        state = weights.parameters | {f"scalar_mix.{name}": value for name, value in mix.items()}
    else:
        state = {f"elmo.{name}": value for name, value in weights.parameters.items()}
        state |= {f"lm_head.{name}": value for name, value in weights.head.items()}
    model.load_state_dict(state, strict=True, assign=True)
    return model.eval()


def untrained_mix(config: ElmoConfig) -> dict[str, Tensor]:
    """Equal weights and γ = 1."""
    return {"weights": torch.zeros(config.num_mixed_layers), "gamma": torch.ones(1)}


def write_folder(weights: Weights, tokenizer: ElmoTokenizer, folder: Path) -> None:
    """Write what `from_pretrained` loads, and beside it what only some uses need."""
    with without_progress_bars():
        build_model(weights).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if weights.head is not None:
        tokenizer.save_vocabulary(str(folder))  # for `hf-elmo prepare --vocabulary`
    if weights.accumulators is not None:
        save_accumulators(weights.accumulators, folder)
    if weights.more_mixes:
        save_file(weights.more_mixes, folder / MORE_MIXES)


def mix_from_json(content: dict[str, Any], config: ElmoConfig, where: Path) -> dict[str, Tensor]:
    """The mix of a scalar_mix.json.

    Raises:
        ValueError: not such a file, or one of a model with another number of layers.
    """
    weights, gamma = content.get("scalar_mix_parameters"), content.get("gamma")
    if not isinstance(weights, list) or not all(
        isinstance(number, int | float) and not isinstance(number, bool) for number in (*weights, gamma)
    ):
        raise ValueError(f"{where}: got {json.dumps(content)[:80]}; expected scalar_mix_parameters and gamma, numbers.")
    if len(weights) != config.num_mixed_layers:
        raise ValueError(
            f"{where}: got {len(weights)} scalar_mix_parameters; expected {config.num_mixed_layers}, one a layer."
        )
    return {"weights": torch.tensor(weights, dtype=torch.float32), "gamma": torch.tensor([gamma], dtype=torch.float32)}


def mix_to_json(mix: dict[str, Tensor]) -> dict[str, Any]:
    """The reverse of [`mix_from_json`]; every float32 survives."""
    return {"scalar_mix_parameters": mix["weights"].tolist(), "gamma": mix["gamma"].item()}
