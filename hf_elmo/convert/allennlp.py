"""State dicts of AllenNLP: an ELMo by itself, or inside the model of a task that it was fine-tuned with.

AllenNLP changes the values of the weight file while it loads them: the forget gate's bias gets its 1, the gates another
order, the highway's gate the opposite sign.  Here that is undone; only the 1 costs precision, 6e-8 at most.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.convert.hdf5 import differences, listed
from hf_elmo.convert.published_options import ORIGINAL, published_config
from hf_elmo.convert.weights import MORE_MIXES, Weights
from hf_elmo.lstm_gradient import FORGET_BIAS

_EMBEDDING = "_token_embedder._char_embedding_weights"
# The character vectors of cached words, which the character CNN computes anyway.
_CACHE = "_word_embedding.weight"
_MIX = re.compile(r"scalar_mix_(\d+)\.(?:gamma|scalar_parameters\.(\d+))")
_EMBEDDERS = ("elmo", "elmo_token_embedder")
_MIX_EPS = 1e-13


class Settings(NamedTuple):
    """What the configuration of AllenNLP's program says of its ELMo.

    Attributes:
        options: where the options came from.
        mix: fields of ElmoConfig for the scalar mix.
    """

    options: str | None = None
    mix: Mapping[str, Any] = {}


def read_settings(content: Mapping[str, Any]) -> Settings:
    """Find ELMo's embedder in the content of a config.json; nothing is known where there is none, or several."""
    found = _embedders(content.get("model"))
    if len(found) != 1:
        return Settings()
    (embedder,) = found
    mix: dict[str, Any] = {}
    if embedder.get("do_layer_norm"):
        mix |= {"mix_layer_norm": "batch", "mix_layer_norm_eps": _MIX_EPS}
    if embedder.get("scalar_mix_parameters") is not None:
        mix["mix_trainable"] = False
    return Settings(str(embedder.get("options_file", ORIGINAL)), mix)


def settings_config(settings: Settings) -> ElmoConfig | None:
    """The configuration of the published model that the options' name means, or None."""
    return None if settings.options is None else published_config(settings.options)


def read_state_dict(
    path: str | Path, config: ElmoConfig, *, prefix: str | None = None, scalar_mix: int | None = None
) -> Weights:
    """The biLM of a state dict, and its scalar mixes.

    Args:
        path: the file; only tensors are read, nothing in it is run.
        config: sizes and options.
        prefix: what the names of ELMo's module begin with, where a model has several.
        scalar_mix: which mix becomes the model's, where there are several (by default the first).

    Raises:
        OSError: the file cannot be read.
        ValueError: it is damaged, holds no ELMo or several, or one of other options.
    """
    state = _load(Path(path))
    root = _root(state, prefix, where=str(path))
    parameters = _parameters(state, root, config, where=str(path))
    # `_ElmoBiLm` lies under `_elmo_lstm.` of the module that has the mixes.
    mixes = _mixes(state, root.removesuffix("_elmo_lstm.") if root.endswith("_elmo_lstm.") else None)
    if scalar_mix is not None and scalar_mix not in mixes:
        there = f"one of {', '.join(map(str, mixes))}" if mixes else "none, since the state dict has no mix"
        raise ValueError(f"{path}: scalar_mix: got {scalar_mix}; expected {there}.")
    weights = Weights(config=config, parameters=parameters)
    if mixes:
        number = min(mixes) if scalar_mix is None else scalar_mix
        weights.mix = _mix(mixes, number, config, where=str(path))
    if len(mixes) > 1:
        weights.more_mixes = {
            f"scalar_mix_{number}.{name}": values for number, mix in mixes.items() for name, values in mix.items()
        }
        weights.notes.append(f"of {len(mixes)} scalar mixes the model has number {number}; all are in {MORE_MIXES}")
    elmo = root.removesuffix("_elmo_lstm.")
    others = sum(not name.startswith(elmo) for name in state)
    if others:
        weights.notes.append(f"{others} tensors outside {elmo or 'ELMo'} were left out: they belong to the task")
    return weights


def _embedders(content: Any) -> list[Mapping[str, Any]]:
    if isinstance(content, list):
        return [found for item in content for found in _embedders(item)]
    if not isinstance(content, Mapping):
        return []
    own = [content] if content.get("type") in _EMBEDDERS else []
    return own + [found for item in content.values() for found in _embedders(item)]


def _load(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected a state dict of AllenNLP.")
    try:
        # Mapped, so that of a large task only ELMo is read.
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except Exception as error:  # what torch raises of a damaged pickle is as arbitrary as the damage
        reason = " ".join(str(error).split())
        raise ValueError(
            f"{path}: cannot be read as a state dict; it is damaged, cut off or holds more than tensors: {reason[:200]}"
        ) from error
    if not isinstance(content, Mapping) or not all(isinstance(name, str) for name in content):
        raise ValueError(f"{path}: got {type(content).__name__}; expected a state dict, tensors by name.")
    return {name: values for name, values in content.items() if isinstance(values, Tensor)}


def _root(state: Mapping[str, Tensor], prefix: str | None, *, where: str) -> str:
    """What the names of the `_ElmoBiLm` begin with."""
    roots = [name.removesuffix(_EMBEDDING) for name in state if name.endswith(_EMBEDDING)]
    wanted = [root for root in roots if prefix is None or root.startswith(prefix)]
    if not wanted:
        known = f", which has it under {listed(roots)}" if roots else " that has one"
        raise ValueError(
            f"{where}: got no {prefix or ''}*{_EMBEDDING} among {len(state)} tensors; expected an ELMo in the state "
            f"dict{known}."
        )
    first = _under(state, wanted[0])
    for other in wanted[1:]:
        second = _under(state, other)
        if first.keys() != second.keys() or not all(torch.equal(first[name], second[name]) for name in first):
            raise ValueError(
                f"{where}: got {len(wanted)} different ELMos, under {listed(wanted)}; expected one, named by --prefix."
            )
    return wanted[0]


def _under(state: Mapping[str, Tensor], root: str) -> dict[str, Tensor]:
    return {name.removeprefix(root): values for name, values in state.items() if name.startswith(root)}


def _parameters(state: Mapping[str, Tensor], root: str, config: ElmoConfig, *, where: str) -> dict[str, Tensor]:
    found = _under(state, root)
    found.pop(_CACHE, None)
    shapes = _shapes(config)
    if shapes.keys() != found.keys():
        raise ValueError(
            f"{where}: got other tensors under {root!r} than the options call for: "
            f"{differences(shapes.keys(), found.keys())}. Do both belong to the same model?"
        )
    for name, shape in shapes.items():
        values = found[name]
        if values.shape != shape:
            raise ValueError(
                f"{where}: {root}{name}: got shape {tuple(values.shape)}; expected {shape} by the options. Do both "
                "belong to the same model?"
            )
        if values.dtype not in (torch.float32, torch.float16) or not torch.isfinite(values).all():
            bad = (~torch.isfinite(values)).sum()
            raise ValueError(
                f"{where}: {root}{name}: got values of {values.dtype}, {bad} of them NaN or infinite; expected float32 "
                "numbers."
            )
        found[name] = values.float()
    return {name: values.contiguous().clone() for name, values in _converted(found, config).items()}


def _shapes(config: ElmoConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor of an `_ElmoBiLm`."""
    d, p, cells = config.character_embedding_size, config.projection_size, config.lstm_size
    n_f = sum(count for _, count in config.character_filters)
    shapes: dict[str, tuple[int, ...]] = {_EMBEDDING: (config.character_vocab_size, d)}
    for i, (width, count) in enumerate(config.character_filters):
        shapes[f"_token_embedder.char_conv_{i}.weight"] = (count, d, width)
        shapes[f"_token_embedder.char_conv_{i}.bias"] = (count,)
    for k in range(config.num_highway_layers):
        shapes[f"_token_embedder._highways._layers.{k}.weight"] = (2 * n_f, n_f)
        shapes[f"_token_embedder._highways._layers.{k}.bias"] = (2 * n_f,)
    if n_f != p:
        shapes["_token_embedder._projection.weight"] = (p, n_f)
        shapes["_token_embedder._projection.bias"] = (p,)
    for cell in _cells(config):
        shapes[f"{cell}.input_linearity.weight"] = (4 * cells, p)
        shapes[f"{cell}.state_linearity.weight"] = (4 * cells, p)
        shapes[f"{cell}.state_linearity.bias"] = (4 * cells,)
        if cells != p:
            shapes[f"{cell}.state_projection.weight"] = (p, cells)
    return shapes


def _cells(config: ElmoConfig) -> dict[str, str]:
    """AllenNLP's LSTM cells, and ours."""
    return {
        f"_elmo_lstm.{direction}_layer_{layer}": f"layers.{layer}.{direction}_lstm"
        for layer in range(config.num_hidden_layers)
        for direction in ("forward", "backward")
    }


def _converted(found: Mapping[str, Tensor], config: ElmoConfig) -> dict[str, Tensor]:
    parameters = {"character_cnn.embedding.weight": found[_EMBEDDING]}
    for number in range(len(config.character_filters)):
        for kind in ("weight", "bias"):
            ours = f"character_cnn.convolutions.{number}.{kind}"
            parameters[ours] = found[f"_token_embedder.char_conv_{number}.{kind}"]
    for k in range(config.num_highway_layers):
        for kind in ("weight", "bias"):
            transform, carry = found[f"_token_embedder._highways._layers.{k}.{kind}"].chunk(2)
            parameters[f"character_cnn.highways.{k}.transform.{kind}"] = transform
            parameters[f"character_cnn.highways.{k}.carry.{kind}"] = -carry
    if "_token_embedder._projection.weight" in found:
        for kind in ("weight", "bias"):
            parameters[f"character_cnn.projection.{kind}"] = found[f"_token_embedder._projection.{kind}"]
    for theirs, ours in _cells(config).items():
        inputs, states = (found[f"{theirs}.{part}_linearity.weight"] for part in ("input", "state"))
        parameters[f"{ours}.gates.weight"] = _gates(torch.cat([inputs, states], dim=1))  # (4D, 2P)
        i, f, j, o = found[f"{theirs}.state_linearity.bias"].chunk(4)
        parameters[f"{ours}.gates.bias"] = torch.cat([i, j, f - FORGET_BIAS, o])
        if f"{theirs}.state_projection.weight" in found:
            parameters[f"{ours}.projection.weight"] = found[f"{theirs}.state_projection.weight"]
    return parameters


def _gates(rows: Tensor) -> Tensor:
    """AllenNLP's order i, f, j, o of blocks of rows → that of the file, i, j, f, o."""
    i, f, j, o = rows.chunk(4)
    return torch.cat([i, j, f, o])


def _mixes(state: Mapping[str, Tensor], parent: str | None) -> dict[int, dict[str, Tensor]]:
    """The tensors of every `ScalarMix` beside the biLM, by its number."""
    mixes: dict[int, dict[str, Tensor]] = {}
    for name, values in state.items():
        match = _MIX.fullmatch(name.removeprefix(parent)) if parent is not None and name.startswith(parent) else None
        if match is not None:
            short = name.removeprefix(parent or "").partition(".")[2]
            mixes.setdefault(int(match[1]), {})[short] = values.float().clone()
    return dict(sorted(mixes.items()))


def _mix(mixes: Mapping[int, dict[str, Tensor]], number: int, config: ElmoConfig, *, where: str) -> dict[str, Tensor]:
    expected = {"gamma", *(f"scalar_parameters.{layer}" for layer in range(config.num_hidden_layers + 1))}
    got = mixes.get(number, {})
    sound = all(values.numel() == 1 and torch.isfinite(values).all() for values in got.values())
    if got.keys() != expected or not sound:
        raise ValueError(
            f"{where}: scalar_mix_{number}: got {listed(got) or 'nothing'}; expected gamma and {len(expected) - 1} "
            "scalar_parameters, one number each."
        )
    weights = [got[f"scalar_parameters.{layer}"].reshape(1) for layer in range(config.num_hidden_layers + 1)]
    return {"weights": torch.cat(weights), "gamma": got["gamma"].reshape(1)}
