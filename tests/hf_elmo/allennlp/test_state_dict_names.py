"""Checkpoints of AllenNLP's task models are read with their own names."""

from pathlib import Path

import numpy as np
import pytest
import torch

from hf_elmo.allennlp import Elmo, batch_to_ids
from tests.hf_elmo.allennlp.original import Original, assert_close, write_original
from tests.hf_elmo.models import WORDS


def allennlp_state_dict(original: Original) -> dict[str, torch.Tensor]:
    """The state dict of an AllenNLP `Elmo`, written out of the original's arrays as the reference does."""
    weights, state = original.weights, {}
    embedder = "_elmo_lstm._token_embedder."
    state[f"{embedder}_char_embedding_weights"] = np.pad(weights["char_embed"], ((1, 0), (0, 0)))
    for i in range(len(original.options["char_cnn"]["filters"])):
        state[f"{embedder}char_conv_{i}.weight"] = weights[f"CNN/W_cnn_{i}"][0].transpose(2, 1, 0)
        state[f"{embedder}char_conv_{i}.bias"] = weights[f"CNN/b_cnn_{i}"]
    for k in range(original.options["char_cnn"]["n_highway"]):
        matrices = weights[f"CNN_high_{k}/W_transform"].T, -weights[f"CNN_high_{k}/W_carry"].T
        biases = weights[f"CNN_high_{k}/b_transform"], -weights[f"CNN_high_{k}/b_carry"]
        state[f"{embedder}_highways._layers.{k}.weight"] = np.concatenate(matrices)
        state[f"{embedder}_highways._layers.{k}.bias"] = np.concatenate(biases)
    state[f"{embedder}_projection.weight"] = weights["CNN_proj/W_proj"].T
    state[f"{embedder}_projection.bias"] = weights["CNN_proj/b_proj"]
    P = original.options["lstm"]["projection_dim"]
    for r, direction in enumerate(("forward", "backward")):
        for layer in range(original.options["lstm"]["n_layers"]):
            cell, name = f"RNN_{r}/RNN/MultiRNNCell/Cell{layer}/LSTMCell", f"{direction}_layer_{layer}"
            i, j, f, o = np.split(weights[f"{cell}/W_0"].T, 4)
            gates = np.concatenate([i, f, j, o])  # (4D, 2P)
            i, j, f, o = np.split(weights[f"{cell}/B"], 4)
            state[f"_elmo_lstm._elmo_lstm.{name}.input_linearity.weight"] = gates[:, :P]
            state[f"_elmo_lstm._elmo_lstm.{name}.state_linearity.weight"] = gates[:, P:]
            state[f"_elmo_lstm._elmo_lstm.{name}.state_linearity.bias"] = np.concatenate([i, f + 1, j, o])
            state[f"_elmo_lstm._elmo_lstm.{name}.state_projection.weight"] = weights[f"{cell}/W_P_0"].T
    for k, value in enumerate((0.5, -1.0, 2.0)):
        state[f"scalar_mix_0.scalar_parameters.{k}"] = np.float32([value])
    state["scalar_mix_0.gamma"] = np.float32([1.5])
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in state.items()}


@pytest.fixture(scope="module")
def fine_tuned(tmp_path_factory: pytest.TempPathFactory) -> Original:
    return write_original(tmp_path_factory.mktemp("fine_tuned"), seed=7)


@pytest.mark.parametrize("prefix", ["", "text_field_embedder.token_embedder_elmo._elmo."])
def test_a_fine_tuned_checkpoint_is_loaded_whole(original: Original, fine_tuned: Original, prefix: str) -> None:
    elmo = Elmo(*original.files, 1, dropout=0.0)
    task = elmo
    for name in reversed(prefix.split(".")[:-1]):
        outer = torch.nn.Module()
        outer.add_module(name, task)
        task = outer
    checkpoint = {prefix + name: value for name, value in allennlp_state_dict(fine_tuned).items()}
    names = set(checkpoint)
    task.load_state_dict(checkpoint)
    assert set(checkpoint) == names  # what was handed over is left as it was
    got = elmo(batch_to_ids([WORDS]))["elmo_representations"][0][0]
    assert_close(got, fine_tuned.mix(WORDS, [0.5, -1, 2], 1.5))


def test_the_mixes_alone(original: Original) -> None:
    elmo = Elmo(*original.files, 1, dropout=0.0)
    mixes = {name: value for name, value in allennlp_state_dict(original).items() if name.startswith("scalar_mix_")}
    missing, unexpected = elmo.load_state_dict(mixes, strict=False)
    assert not unexpected
    assert all(name.startswith("_elmo_lstm.") for name in missing)
    got = elmo(batch_to_ids([WORDS]))["elmo_representations"][0][0]
    assert_close(got, original.mix(WORDS, [0.5, -1, 2], 1.5))


def test_a_cached_vocabulary(original: Original, fine_tuned: Original) -> None:
    words = ["", "dog", "bark"]
    elmo = Elmo(*original.files, 1, dropout=0.0, vocab_to_cache=words)
    table = torch.arange(48.0).reshape(3, 16)
    elmo.load_state_dict({**allennlp_state_dict(fine_tuned), "_elmo_lstm._word_embedding.weight": table})
    assert torch.equal(elmo._elmo_lstm._elmo_lstm.model.character_cnn.word_embedding.weight, table)


def test_what_is_missing_unknown_or_of_another_size_is_reported(original: Original, tmp_path: Path) -> None:
    elmo = Elmo(*original.files, 1)
    state = allennlp_state_dict(original)
    del state["_elmo_lstm._elmo_lstm.forward_layer_1.state_linearity.bias"]
    with pytest.raises(RuntimeError, match=r"layers\.1\.forward_lstm\.gates\.weight"):
        elmo.load_state_dict(state)
    with pytest.raises(RuntimeError, match="stranger"):
        elmo.load_state_dict({**allennlp_state_dict(original), "_elmo_lstm.stranger": torch.zeros(1)})
    larger = write_original(tmp_path, name="three_layers")
    with pytest.raises(RuntimeError, match="forward_layer_2"):
        elmo.load_state_dict(allennlp_state_dict(larger))
