"""An update of two processes, over accumulated batches, is the update of one process on all of their words."""

import os
import subprocess
import sys
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn.utils.rnn import pad_sequence

from hf_elmo import ElmoForPreTraining
from hf_elmo.pretraining.shards import PreparedCorpus
from hf_elmo.pretraining.trainer import model_inputs
from tests.hf_elmo.pretraining.prepared_corpora import prepare_sentences
from tests.hf_elmo.pretraining.two_processes import (
    ACCUMULATION,
    BATCH_SIZE,
    CASES,
    NEGATIVES,
    model_of,
    text_of,
)

REPOSITORY = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> PreparedCorpus:
    rng = np.random.default_rng(0)
    sentences = [[f"w{word}" for word in rng.zipf(1.5, rng.integers(1, 9)).clip(max=60)] for _ in range(90)]
    return prepare_sentences(tmp_path_factory.mktemp("corpus"), sentences, shard_words=80)


@pytest.fixture(scope="module")
def out(prepared, tmp_path_factory) -> Path:
    """What both processes end with, of every case."""
    out = tmp_path_factory.mktemp("out")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
    module = ["-m", "tests.hf_elmo.pretraining.two_processes", str(prepared.path), str(out)]
    finished = subprocess.run(
        [*torchrun, *module], cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
    return out


def batches_of(prepared: PreparedCorpus, text_as: str) -> list[list[dict[str, torch.Tensor]]]:
    """Per process the batches of its update."""
    settings = {"per_device_train_batch_size": BATCH_SIZE, "data_seed": None, "seed": 42, "world_size": 2}
    texts = [text_of(prepared, SimpleNamespace(**settings, process_index=rank), text_as) for rank in range(2)]
    return [[model_inputs(batch) for batch in islice(text, ACCUMULATION)] for text in texts]


def loss_of_streams(model: ElmoForPreTraining, processes: list[list[dict[str, torch.Tensor]]]) -> torch.Tensor:
    losses = []
    for batches in processes:
        state = None
        for batch in batches:
            output = model(**batch, state=state)
            state = output.state.detach()
            losses.append(output.loss)
    return torch.stack(losses).mean()


def loss_of_sentences(model: ElmoForPreTraining, processes: list[list[dict[str, torch.Tensor]]]) -> torch.Tensor:
    """All of them in one padded batch."""
    batches = [batch for process in processes for batch in process]
    assert len({int(batch["attention_mask"].sum()) - len(batch["labels"]) for batch in batches}) > 1
    joint = {
        name: pad_sequence([row for batch in batches for row in batch[name]], batch_first=True, padding_value=padding)
        for name, padding in (("character_ids", 0), ("attention_mask", 0), ("labels", -100))
    }
    return model(**joint).loss


@pytest.mark.parametrize("name", CASES)
def test_the_update_is_the_joint_one(prepared, out, monkeypatch, name):
    options, text_as, _, max_norm = CASES[name]
    monkeypatch.setattr("hf_elmo.lm_head.draw_negatives", lambda *_: NEGATIVES)
    model = model_of(prepared, options).train()
    joint = loss_of_streams if text_as == "streams" else loss_of_sentences
    loss = joint(model, batches_of(prepared, text_as))
    loss.backward()
    norm = torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).norm().item()
    scale = min(1.0, max_norm / norm) if max_norm else 1.0
    assert not max_norm or norm > 2 * max_norm

    first, second = (load_file(out / f"{name}-{rank}.safetensors") for rank in range(2))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert first["log.loss"].item() == pytest.approx(loss.item(), rel=1e-5)
    assert first["log.grad_norm"].item() == pytest.approx(norm, rel=1e-5)
    for key, parameter in model.named_parameters():
        expected = parameter - scale * parameter.grad
        torch.testing.assert_close(first[key], expected.detach(), rtol=0, atol=2e-6)
