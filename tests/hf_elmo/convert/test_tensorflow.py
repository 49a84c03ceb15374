"""bilm-tf's checkpoints.  Names and values are tested without TensorFlow, its files with it."""

import importlib.util
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from hf_elmo import ElmoConfig, ElmoForPreTraining, ElmoTokenizer
from hf_elmo.cli.main import main
from hf_elmo.convert import convert
from hf_elmo.convert.options_json import read_options
from hf_elmo.convert.tensorflow import weights_of
from hf_elmo.pretraining.adagrad_start import load_accumulators
from tests.hf_elmo.convert.formats import (
    OPTIONS,
    VOCABULARY,
    WEIGHTS,
    tensorflow_variables,
    vocabulary_file,
    write_checkpoint,
)
from tests.oracles import random_weights

needs_tensorflow = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason='tensorflow is not installed: pip install ".[tensorflow]"'
)
TRAINING = {"dropout": 0.1, "sample_softmax": True, "n_negative_samples_batch": 5, "bidirectional": True}


class Recorded:
    """Variables that lie in memory."""

    def __init__(self, values: Mapping[str, np.ndarray]) -> None:
        self.values = values
        self.shapes = {name: np.shape(value) for name, value in values.items()}

    def read(self, name: str) -> np.ndarray:
        return self.values[name]


@pytest.fixture
def config(tmp_path: Path) -> ElmoConfig:
    random_weights.write_options(tmp_path / "options.json", OPTIONS)
    config = read_options(tmp_path / "options.json")
    config.vocab_size = len(VOCABULARY) + 1
    return config


def _check(parameters: Mapping[str, torch.Tensor], sums: Mapping[str, torch.Tensor], variables: Mapping) -> None:
    """Some parameters of every kind, in the layout of torch."""
    cell = "lm/RNN_1/rnn/multi_rnn_cell/cell_0/lstm_cell"
    expected = {
        "elmo.layers.0.backward_lstm.gates.weight": (f"{cell}/kernel", lambda x: x.T),
        "elmo.layers.0.backward_lstm.gates.bias": (f"{cell}/bias", lambda x: x),
        "elmo.layers.0.backward_lstm.projection.weight": (f"{cell}/projection/kernel", lambda x: x.T),
        "elmo.character_cnn.convolutions.2.weight": ("lm/CNN/W_cnn_2", lambda x: x[0].transpose(2, 1, 0)),
        "elmo.character_cnn.highways.1.carry.weight": ("lm/CNN_high_1/W_carry", lambda x: x.T),
        "elmo.character_cnn.projection.bias": ("lm/CNN_proj/b_proj", lambda x: x),
        "lm_head.weight": ("lm/softmax/W", lambda x: x),
        "lm_head.bias": ("lm/softmax/b", lambda x: x),
    }
    for ours, (theirs, layout) in expected.items():
        np.testing.assert_array_equal(parameters[ours], layout(variables[theirs]))
        np.testing.assert_array_equal(sums[ours], layout(variables[f"{theirs}/Adagrad"]))
    characters = "elmo.character_cnn.embedding.weight"
    np.testing.assert_array_equal(parameters[characters][1:], variables["lm/char_embed"])
    np.testing.assert_array_equal(sums[characters][1:], variables["lm/char_embed/Adagrad"])
    assert not parameters[characters][0].any()
    assert (sums[characters][0] == 1).all()  # divided by, never trained


def test_every_variable_has_its_place(config: ElmoConfig) -> None:
    variables = tensorflow_variables()
    weights = weights_of(Recorded(variables), config, with_head=True, where="x")
    parameters = {f"elmo.{name}": values for name, values in weights.parameters.items()}
    parameters |= {f"lm_head.{name}": values for name, values in weights.head.items()}
    assert (
        parameters.keys() == weights.accumulators.keys() == dict(ElmoForPreTraining(config).named_parameters()).keys()
    )
    _check(parameters, weights.accumulators, variables)
    assert weights.notes == []


def test_one_layer_is_no_stack(tmp_path: Path) -> None:
    """With a single layer bilm-tf makes no MultiRNNCell, and the names are shorter."""
    options = random_weights.options("one_layer")
    random_weights.write_options(tmp_path / "options.json", options)
    config = read_options(tmp_path / "options.json")
    weights = random_weights.random_weights(options, seed=0)
    variables = {name.replace("multi_rnn_cell/cell_0/", ""): v for name, v in tensorflow_variables(weights).items()}
    parameters = weights_of(Recorded(variables), config, with_head=False, where="x").parameters
    kernel = variables["lm/RNN_0/rnn/lstm_cell/kernel"]
    np.testing.assert_array_equal(parameters["layers.0.forward_lstm.gates.weight"], kernel.T)


def test_without_accumulators_and_with_those_of_another_optimiser(config: ElmoConfig) -> None:
    variables = {name: v for name, v in tensorflow_variables().items() if not name.endswith("/Adagrad")}
    variables |= {f"{name}/Adam": v for name, v in variables.items() if name.startswith("lm/")}
    variables |= {"beta1_power": np.float32(0.9)}
    weights = weights_of(Recorded(variables), config, with_head=True, where="x")
    assert weights.accumulators is None
    assert weights.notes == [
        "1 variables that belong to no biLM were left out: beta1_power",
        "the checkpoint has no accumulators of Adagrad; training goes on with fresh ones",
    ]


def _without(name: str) -> dict[str, np.ndarray]:
    return {key: value for key, value in tensorflow_variables().items() if key != name}


def _with(name: str, value: Any) -> dict[str, np.ndarray]:
    return {**tensorflow_variables(), name: value}


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (_without("lm/CNN/W_cnn_0"), "missing lm/CNN/W_cnn_0"),
        (_without("lm/softmax/b"), "missing lm/softmax/b"),
        (_without("lm/CNN/W_cnn_0/Adagrad"), "accumulators without lm/CNN/W_cnn_0/Adagrad"),
        (_with("lm/CNN_high_2/W_carry", np.zeros(3, np.float32)), "not expected lm/CNN_high_2/W_carry"),
        (_with("lm/softmax/b", np.zeros(5, np.float32)), r"lm/softmax/b: got shape \(5,\); expected \(13,\)"),
        (_with("lm/char_embed", np.zeros((262, 4), np.float32)), r"got shape \(262, 4\); expected \(261, 4\)"),
        (_with("lm/CNN/b_cnn_0", np.full(4, np.nan, np.float32)), "no float32 numbers"),
        (_with("lm/CNN/b_cnn_0/Adagrad", np.zeros(4, np.float32)), "a sum that is not positive"),
    ],
)
def test_what_is_wrong_is_named(variables: Mapping[str, np.ndarray], message: str, config: ElmoConfig) -> None:
    with pytest.raises(ValueError, match=f"model.ckpt.*{message}"):
        weights_of(Recorded(variables), config, with_head=True, where="model.ckpt")


def test_without_tensorflow_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    random_weights.write_options(tmp_path / "options.json", OPTIONS)
    (tmp_path / "model.ckpt.index").write_bytes(b"x")
    assert main(["convert", str(tmp_path), str(tmp_path / "out")]) == 2
    assert 'pip install "spacy-elmo[tensorflow]"' in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    """What bilm-tf leaves in its folder, the file `checkpoint` naming a path of another machine."""
    folder = tmp_path_factory.mktemp("bilm-tf")
    variables = tensorflow_variables()
    write_checkpoint(folder / "model.ckpt-100", {name: values * 0 for name, values in variables.items()})
    write_checkpoint(folder / "model.ckpt-200", variables)
    paths = [f'all_model_checkpoint_paths: "/home/someone/run/model.ckpt-{step}"\n' for step in (100, 200)]
    (folder / "checkpoint").write_text('model_checkpoint_path: "/home/someone/run/model.ckpt-200"\n' + "".join(paths))
    options = {**OPTIONS, **TRAINING, "char_cnn": {**OPTIONS["char_cnn"], "n_characters": 261}}
    random_weights.write_options(folder / "options.json", options)
    vocabulary_file(folder)
    return folder, variables


@needs_tensorflow
@pytest.mark.parametrize("source", ["", "model.ckpt-200", "model.ckpt-200.index", "model.ckpt-200.data-00000-of-00001"])
def test_a_checkpoint_becomes_a_language_model(source: str, checkpoint, tmp_path: Path) -> None:
    folder, variables = checkpoint
    assert main(["convert", str(folder / source), str(tmp_path / "out")]) == 0
    model = ElmoForPreTraining.from_pretrained(tmp_path / "out")
    assert (model.config.dropout, model.config.lm_softmax, model.config.num_negative_samples) == (0.1, "sampled", 5)
    _check(model.state_dict(), load_file(tmp_path / "out" / "adagrad.safetensors"), variables)
    assert load_accumulators(tmp_path / "out", model).keys() == set(model.parameters())
    words = ElmoTokenizer.from_pretrained(tmp_path / "out").get_vocab()
    assert sorted(words, key=words.__getitem__)[1:] == VOCABULARY
    assert (tmp_path / "out" / "vocab.txt").read_text(encoding="utf-8").splitlines() == VOCABULARY
    assert not list((tmp_path / "out").glob("*.pt")) + list((tmp_path / "out").glob("*.bin"))


@needs_tensorflow
def test_a_zip_of_a_checkpoint(checkpoint, tmp_path: Path) -> None:
    folder, variables = checkpoint
    shutil.make_archive(str(tmp_path / "run"), "zip", folder)
    convert(tmp_path / "run.zip", tmp_path / "out")
    stored = load_file(tmp_path / "out" / "model.safetensors")
    _check(stored, load_file(tmp_path / "out" / "adagrad.safetensors"), variables)


@needs_tensorflow
def test_vectors_need_no_vocabulary(checkpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = checkpoint
    copy = Path(shutil.copytree(folder, tmp_path / "run"))
    (copy / "vocab.txt").unlink()
    assert main(["convert", str(copy), str(tmp_path / "out")]) == 2
    assert "expected the vocabulary: --vocab VOCAB.txt, or --without-head" in capsys.readouterr().err
    assert main(["convert", str(copy), str(tmp_path / "out"), "--without-head"]) == 0
    random_weights.write_hdf5(tmp_path / "weights.hdf5", WEIGHTS)
    convert(copy / "options.json", tmp_path / "weights.hdf5", tmp_path / "plain")
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("out", "plain"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not (tmp_path / "out" / "adagrad.safetensors").exists()


@needs_tensorflow
@pytest.mark.parametrize("name", ["model.ckpt-200.index", "model.ckpt-200.data-00000-of-00001"])
def test_damage_is_one_line(name: str, checkpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = Path(shutil.copytree(checkpoint[0], tmp_path / "run"))
    content = (copy / name).read_bytes()
    rng = np.random.default_rng(0)
    flipped = bytearray(content)
    for place in rng.integers(0, len(content), 50):
        flipped[place] ^= 0xFF
    for damaged in (b"", content[:20], content[: len(content) // 2], content[:-100], bytes(flipped)):
        (copy / name).write_bytes(damaged)
        assert main(["convert", str(copy), str(tmp_path / "out")]) == 2
        said = capsys.readouterr().err.strip()
        assert len(said.splitlines()) == 1
        assert str(copy / "model.ckpt-200.index") in said
        assert not (tmp_path / "out").exists()
    (copy / name).unlink()
    assert main(["convert", str(copy / "model.ckpt-200"), str(tmp_path / "out")]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


@needs_tensorflow
def test_other_options_and_vocabularies_are_noticed(checkpoint, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(checkpoint[0], tmp_path / "run"))
    (copy / "vocab.txt").write_text("".join(f"{word}\n" for word in VOCABULARY[:-1]), encoding="utf-8")
    with pytest.raises(ValueError, match=r"lm/softmax/W: got shape \(13, 16\); expected \(12, 16\)"):
        convert(copy, tmp_path / "out")
    options = json.loads((copy / "options.json").read_text())
    options["lstm"]["dim"] = 32
    (copy / "options.json").write_text(json.dumps(options))
    with pytest.raises(ValueError, match="Do they belong to the same model"):
        convert(copy, tmp_path / "out", vocab_file=checkpoint[0] / "vocab.txt")
    assert not (tmp_path / "out").exists()
