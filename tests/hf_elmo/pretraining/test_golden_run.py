"""Six updates of the original training program (bilm-tf on TensorFlow), repeated by BiLMTrainer.

Once by the full softmax, and once by the sampled one with sparse gradients and every word drawn for sure as a negative,
which is the full softmax too.
"""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from transformers import TrainerCallback, TrainingArguments

from hf_elmo import ElmoForPreTraining
from hf_elmo.checkpoint_map import checkpoint_map
from hf_elmo.convert.options_json import read_options
from hf_elmo.pretraining.arguments import PretrainingOptions
from hf_elmo.pretraining.trainer import BiLMTrainer
from hf_elmo.pretraining.training_run import optimizer
from hf_elmo.sampled_softmax import Negatives

NUM_UPDATES = 6
TENSORFLOW_NAMES = {
    "RNN/MultiRNNCell/Cell": "rnn/multi_rnn_cell/cell_",
    "LSTMCell/W_0": "lstm_cell/kernel",
    "LSTMCell/B": "lstm_cell/bias",
    "LSTMCell/W_P_0": "lstm_cell/projection/kernel",
}


class RecordedStreams:
    """The batches that the original trained on, in the form of `StreamBatches`."""

    def __init__(self, folder: Path) -> None:
        self.recorded = np.load(folder / "train_steps.npz")
        self.batch_size, self.unroll_steps = self.recorded["0/token_ids"].shape
        self.predictions_per_batch = self.batch_size * self.unroll_steps
        self.read = 0
        self.epoch = 0.0

    def __iter__(self):
        return self

    def __next__(self):
        step, self.read = self.read, self.read + 1
        names = "tokens_characters", "tokens_characters_reverse", "next_token_id", "next_token_id_reverse"
        forward, backward, labels, backward_labels = (self.recorded[f"{step}/{name}"] for name in names)
        rows = np.concatenate([forward, backward]).reshape(-1, forward.shape[-1]) + 1  # 0 is "no word" with us
        distinct, index = np.unique(rows, axis=0, return_inverse=True)
        forward_index, backward_index = index.reshape(2, *labels.shape)
        return {
            "distinct_character_ids": distinct.astype(np.int64),
            "distinct_index": forward_index,
            "backward_distinct_index": backward_index,
            "labels": labels.astype(np.int64) + 1,  # <pad> is 0 with us
            "backward_labels": backward_labels.astype(np.int64) + 1,
        }


def parameters_of(path: Path, config) -> dict[str, torch.Tensor]:
    with h5py.File(path) as file:
        parameters = {"lm_head.weight": file["lm/softmax/W"][()], "lm_head.bias": file["lm/softmax/b"][()]}
        for entry in checkpoint_map(config):
            name = entry.dataset
            for ours, theirs in TENSORFLOW_NAMES.items():
                name = name.replace(ours, theirs)
            parameters[f"elmo.{entry.parameter}"] = entry.layout.from_file(file[f"lm/{name}"][()])
        datasets = []
        file.visititems(lambda name, item: datasets.append(name) if isinstance(item, h5py.Dataset) else None)
        assert len(datasets) == len(parameters)
    return {name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in parameters.items()}


class SeesGradients(TrainerCallback):
    """Whether the softmax's gradients were sparse at the updates."""

    def __init__(self) -> None:
        self.sparse = []

    def on_pre_optimizer_step(self, args, state, control, model, **kwargs):
        self.sparse += [parameter.grad.is_sparse for parameter in model.lm_head.parameters()]


@pytest.fixture(scope="module", params=[False, True], ids=["full", "sparse"])
def golden(request, shared_dir, tmp_path_factory):
    """The run repeated: recorded steps, the outputs of ours, its log, parameters after it and those expected."""
    folder = shared_dir / "reference" / "bilm_training_golden"
    if not folder.is_dir():
        pytest.skip(f"no recorded training at {folder}")
    recorded = json.loads((folder / "train_options.json").read_text())
    config = read_options(folder / "train_options.json")
    config.vocab_size = recorded["n_tokens_vocab"] + 1
    config.dropout, config.lm_softmax = recorded["dropout"], "sampled" if request.param else "full"
    config.num_negative_samples = 1
    model = ElmoForPreTraining(config)
    model.load_state_dict(parameters_of(folder / "train_before.hdf5", config))
    streams = RecordedStreams(folder)
    training = TrainingArguments(
        output_dir=str(tmp_path_factory.mktemp("golden")),
        max_steps=NUM_UPDATES,
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
        sparse_softmax_gradient=True,
        callbacks=[sees := SeesGradients()],
        optimizer_cls_and_kwargs=optimizer(PretrainingOptions(prepared=""), training),
    )
    outputs = []
    model.register_forward_hook(lambda module, inputs, output: outputs.append(output))
    every_word = Negatives(torch.arange(config.vocab_size - 1), num_tries=10**12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hf_elmo.lm_head.draw_negatives", lambda *_: every_word)
        trainer.train()
    assert sees.sparse == [request.param] * 2 * NUM_UPDATES
    log = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(outputs) == len(log) == NUM_UPDATES
    return streams.recorded, outputs, log, model.state_dict(), parameters_of(folder / "train_after.hdf5", config)


def test_losses(golden):
    recorded, outputs, log, _, _ = golden
    for step in range(NUM_UPDATES):
        output, expected = outputs[step], recorded[f"{step}/loss"]
        assert output.forward_loss.item() == pytest.approx(recorded[f"{step}/loss_fw"], abs=1e-6)
        assert output.backward_loss.item() == pytest.approx(recorded[f"{step}/loss_bw"], abs=1e-6)
        assert log[step]["loss"] == pytest.approx(expected, abs=1e-6)


def test_gradient_norms(golden):
    recorded, _, log, _, _ = golden
    for step in range(NUM_UPDATES):
        assert log[step]["grad_norm"] == pytest.approx(recorded[f"{step}/grad_norm"], rel=1e-6)
    assert min(entry["grad_norm"] for entry in log) > 1  # so that clipping at 1 is tested


def test_final_states(golden):
    recorded, outputs, _, _, _ = golden
    for step in range(NUM_UPDATES):
        cell, hidden = outputs[step].state
        for number, (direction, layer) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
            expected = (recorded[f"{step}/final_state_{2 * number + half}"] for half in range(2))
            for ours, theirs in zip((cell[layer, direction], hidden[layer, direction]), expected, strict=True):
                np.testing.assert_allclose(ours.detach(), theirs, atol=1e-6, rtol=0)


def test_parameters_after_six_updates(golden):
    _, _, _, parameters, expected = golden
    assert parameters.keys() == expected.keys()
    differences = {name: (parameters[name] - expected[name]).abs().max().item() for name in expected}
    assert max(differences.values()) <= 1e-6, differences
