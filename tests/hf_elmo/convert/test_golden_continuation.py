"""A run of bilm-tf that is broken off, converted, and goes on here, ends where bilm-tf's own run ended."""

import importlib.util
import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from transformers import TrainingArguments

from hf_elmo import ElmoForPreTraining, ElmoTokenizer
from hf_elmo.convert.options_json import read_options, read_training_options
from hf_elmo.convert.tensorflow import read_checkpoint, weights_of
from hf_elmo.convert.weights import Weights, write_folder
from hf_elmo.initial_state import ElmoState
from hf_elmo.pretraining.adagrad_start import StartedAdagrad
from hf_elmo.pretraining.arguments import PretrainingOptions
from hf_elmo.pretraining.init_from import Start
from hf_elmo.pretraining.trainer import BiLMTrainer
from hf_elmo.pretraining.training_run import optimizer
from tests.hf_elmo.convert.formats import write_checkpoint
from tests.hf_elmo.convert.test_tensorflow import Recorded
from tests.hf_elmo.pretraining.test_golden_run import RecordedStreams
from tests.oracles.plain_adagrad import adagrad_updates

UPDATES = 6
BROKEN_OFF = 3


@pytest.fixture(scope="module")
def golden(shared_dir: Path) -> Path:
    folder = shared_dir / "reference" / "bilm_training_golden"
    if not folder.is_dir():
        pytest.skip(f"no recorded training at {folder}")
    return folder


def _variables(path: Path) -> dict[str, np.ndarray]:
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    return found


@pytest.fixture(scope="module")
def broken_off(golden: Path) -> dict[str, np.ndarray]:
    """What bilm-tf would have saved after three updates: computed from its record by a plain restatement."""
    parameters, sums = adagrad_updates(golden, BROKEN_OFF)
    return {**parameters, **{f"{name}/Adagrad": values for name, values in sums.items()}, "global_step": np.float32(3)}


def _go_on(golden: Path, weights: Weights, folder: Path, *, done: int) -> tuple[BiLMTrainer, ElmoForPreTraining]:
    """Train to the sixth update from the folder that the conversion writes."""
    recorded = json.loads((golden / "train_options.json").read_text())
    words = ["<S>", "</S>", "<UNK>", *(f"w{number}" for number in range(recorded["n_tokens_vocab"] - 3))]
    folder.mkdir()
    write_folder(weights, ElmoTokenizer(words), folder)
    start = Start(folder, words, {})
    model = start.load_model()
    streams = RecordedStreams(golden)
    streams.read = done
    training = TrainingArguments(
        output_dir=str(folder / "run"),
        max_steps=UPDATES - done,
        per_device_train_batch_size=recorded["batch_size"],
        optim="adagrad",
        learning_rate=recorded["learning_rate"],
        lr_scheduler_type="constant",
        max_grad_norm=recorded["all_clip_norm_val"],
        logging_steps=1,
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = BiLMTrainer(
        model=model,
        args=training,
        streams=streams,
        loss_scale=recorded["unroll_steps"],
        optimizer_cls_and_kwargs=optimizer(PretrainingOptions(prepared=""), training, start.adagrad_sums(model)),
    )
    if done:  # bilm-tf does not save the state; with it the rest of the record can be compared
        last = [streams.recorded[f"{done - 1}/final_state_{number}"] for number in range(8)]
        cell, hidden = (np.array([[last[half], last[4 + half]], [last[2 + half], last[6 + half]]]) for half in (0, 1))
        trainer._state = ElmoState(torch.from_numpy(cell), torch.from_numpy(hidden))
    trainer.train()
    return trainer, model


def _config(golden: Path):
    config = read_options(golden / "train_options.json")
    for name, value in read_training_options(golden / "train_options.json").items():
        setattr(config, name, value)
    config.vocab_size = json.loads((golden / "train_options.json").read_text())["n_tokens_vocab"] + 1
    return config


def _check(golden: Path, trainer: BiLMTrainer, model: ElmoForPreTraining, *, done: int) -> None:
    recorded = np.load(golden / "train_steps.npz")
    log = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(log) == UPDATES - done
    for step, entry in enumerate(log, start=done):
        assert entry["loss"] == pytest.approx(recorded[f"{step}/loss"], abs=1e-6)
        assert entry["grad_norm"] == pytest.approx(recorded[f"{step}/grad_norm"], rel=1e-5)
    expected = weights_of(Recorded(_variables(golden / "train_after.hdf5")), _config(golden), with_head=True, where="x")
    state = model.state_dict()
    for name, values in expected.parameters.items():
        torch.testing.assert_close(state[f"elmo.{name}"], values, rtol=0, atol=1e-6, msg=name)
    for name, values in expected.head.items():
        torch.testing.assert_close(state[f"lm_head.{name}"], values, rtol=0, atol=1e-6, msg=name)


def test_from_the_middle(golden: Path, broken_off: dict[str, np.ndarray], tmp_path: Path) -> None:
    weights = weights_of(Recorded(broken_off), _config(golden), with_head=True, where="x")
    trainer, model = _go_on(golden, weights, tmp_path / "lm", done=BROKEN_OFF)
    assert isinstance(trainer.optimizer.optimizer, StartedAdagrad)
    _check(golden, trainer, model, done=BROKEN_OFF)


def test_accumulators_matter(golden: Path, broken_off: dict[str, np.ndarray], tmp_path: Path) -> None:
    """Else the tests above would say nothing about them."""
    weights = weights_of(Recorded(broken_off), _config(golden), with_head=True, where="x")
    weights.accumulators = {name: torch.ones_like(sums) for name, sums in weights.accumulators.items()}
    trainer, model = _go_on(golden, weights, tmp_path / "lm", done=BROKEN_OFF)
    with pytest.raises(AssertionError):
        _check(golden, trainer, model, done=BROKEN_OFF)


@pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason='tensorflow is not installed: pip install ".[tensorflow]"'
)
@pytest.mark.parametrize("done", [0, BROKEN_OFF])
def test_through_a_checkpoint_on_disk(
    done: int, golden: Path, broken_off: dict[str, np.ndarray], tmp_path: Path
) -> None:
    if done:
        variables = broken_off
    else:
        variables = _variables(golden / "train_before.hdf5")
        variables |= {f"{name}/Adagrad": np.ones_like(values) for name, values in variables.items()}
    write_checkpoint(tmp_path / "model.ckpt", variables)
    weights = read_checkpoint(tmp_path / "model.ckpt.index", _config(golden), with_head=True)
    trainer, model = _go_on(golden, weights, tmp_path / "lm", done=done)
    _check(golden, trainer, model, done=done)
