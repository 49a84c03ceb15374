"""Checkpoints of AllenNLP task models: their names and layouts of the biLM's parameters, read into ours.

The reference stores what it computes with: the forget bias with its +1, the highway's gate with its sign turned, the
gates in the order i, f, j, o, and the input's and the state's matrix apart.
"""

from collections.abc import Iterator, MutableMapping

import torch
from torch import Tensor

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.lstm_gradient import FORGET_BIAS

StateDict = MutableMapping[str, Tensor]


def take_allennlp_names(state_dict: StateDict, prefix: str, config: ElmoConfig) -> None:
    """Rename and rearrange in place what an `_ElmoBiLm` of AllenNLP stored under `prefix`.

    What is missing stays missing, and what is unknown stays there: `load_state_dict` reports both.
    """
    if f"{prefix}_token_embedder._char_embedding_weights" not in state_dict:
        return
    ours = f"{prefix}_elmo_lstm.model."
    for old, new in _renamed(config):
        if prefix + old in state_dict:
            state_dict[ours + new] = state_dict.pop(prefix + old)
    for k in range(config.num_highway_layers):
        _split_highway(
            state_dict, f"{prefix}_token_embedder._highways._layers.{k}.", f"{ours}character_cnn.highways.{k}."
        )
    for direction in ("forward", "backward"):
        for layer in range(config.num_hidden_layers):
            old, new = f"{prefix}_elmo_lstm.{direction}_layer_{layer}.", f"{ours}layers.{layer}.{direction}_lstm."
            _join_gates(state_dict, old, new)


def _renamed(config: ElmoConfig) -> Iterator[tuple[str, str]]:
    """Parameters that differ in their names only."""
    embedder, cnn = "_token_embedder.", "character_cnn."
    yield f"{embedder}_char_embedding_weights", f"{cnn}embedding.weight"
    yield "_word_embedding.weight", f"{cnn}word_embedding.weight"
    for kind in ("weight", "bias"):
        yield f"{embedder}_projection.{kind}", f"{cnn}projection.{kind}"
        for i in range(len(config.character_filters)):
            yield f"{embedder}char_conv_{i}.{kind}", f"{cnn}convolutions.{i}.{kind}"
    for direction in ("forward", "backward"):
        for layer in range(config.num_hidden_layers):
            yield (
                f"_elmo_lstm.{direction}_layer_{layer}.state_projection.weight",
                f"layers.{layer}.{direction}_lstm.projection.weight",
            )


def _split_highway(state_dict: StateDict, old: str, new: str) -> None:
    for kind in ("weight", "bias"):
        if old + kind in state_dict:
            transform, gate = state_dict.pop(old + kind).chunk(2)  # (n_f, ...) each
            state_dict[f"{new}transform.{kind}"] = transform
            state_dict[f"{new}carry.{kind}"] = -gate


def _join_gates(state_dict: StateDict, old: str, new: str) -> None:
    names = [f"{old}input_linearity.weight", f"{old}state_linearity.weight", f"{old}state_linearity.bias"]
    if not all(name in state_dict for name in names):
        return
    input_weight, state_weight, bias = (state_dict.pop(name) for name in names)  # (4D, P), (4D, P), (4D,)
    i, f, j, o = bias.chunk(4)
    state_dict[f"{new}gates.bias"] = torch.cat([i, j, f - FORGET_BIAS, o])
    i, f, j, o = torch.cat([input_weight, state_weight], dim=1).chunk(4)  # (D, 2P) each
    state_dict[f"{new}gates.weight"] = torch.cat([i, j, f, o])
