import shutil
from pathlib import Path

import pytest
import torch
from transformers import TrainingArguments, set_seed

from hf_elmo.pretraining.arguments import PretrainingOptions
from hf_elmo.pretraining.shards import PreparedCorpus
from hf_elmo.pretraining.streams import StreamBatches
from hf_elmo.pretraining.trainer import BiLMTrainer
from hf_elmo.pretraining.training_run import optimizer
from tests.hf_elmo.models import ids, random_lm
from tests.hf_elmo.pretraining.test_trainer import assert_same_outcome, log_of, model_of


def trainer_of(prepared: PreparedCorpus, folder: Path, *, sparse: bool, seed: int = 0, **training) -> BiLMTrainer:
    set_seed(7)
    defaults = {"max_steps": 6, "learning_rate": 0.2, "logging_steps": 1, "save_strategy": "no", "optim": "adagrad"}
    args = TrainingArguments(output_dir=str(folder), use_cpu=True, disable_tqdm=True, **{**defaults, **training})
    return BiLMTrainer(
        model=model_of(prepared, seed=seed, dropout=0.1, num_negative_samples=4),
        args=args,
        streams=StreamBatches(prepared, batch_size=3, unroll_steps=5, seed=1),
        sparse_softmax_gradient=sparse,
        optimizer_cls_and_kwargs=optimizer(PretrainingOptions(prepared=""), args),
    )


@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize("max_grad_norm", [0.0, 0.05, 100.0])
def test_is_the_dense_update(prepared, tmp_path, accumulation, max_grad_norm):
    """With dropout, the same sample, the same norm, and a clip that acts, that does not, or that is absent."""
    options = {"gradient_accumulation_steps": accumulation, "max_grad_norm": max_grad_norm, "max_steps": 3}
    dense, sparse = (trainer_of(prepared, tmp_path, sparse=sparse, **options) for sparse in (False, True))
    start = {name: values.clone() for name, values in sparse.model.named_parameters()}
    for trainer in (dense, sparse):
        set_seed(3)
        trainer.train()
    logs = [[(entry["loss"], entry["grad_norm"]) for entry in log_of(trainer)] for trainer in (dense, sparse)]
    for one, other in zip(*logs, strict=True):
        assert one == pytest.approx(other, rel=1e-5)
    assert all(norm > 0.1 for _, norm in logs[0])  # so that a clip at 0.05 acts
    parameters = dict(sparse.model.named_parameters())
    torch.testing.assert_close(parameters, dict(dense.model.named_parameters()), rtol=0, atol=1e-5)
    for name, parameter in sparse.model.named_parameters():
        state, expected = (trainer.optimizer.state for trainer in (sparse, dense))
        other = dict(dense.model.named_parameters())[name]
        torch.testing.assert_close(state[parameter]["sum"], expected[other]["sum"], rtol=1e-5, atol=1e-6)
    changed = (parameters["lm_head.weight"] != start["lm_head.weight"]).any(dim=1)
    assert changed.any()
    assert accumulation > 1 or not changed.all()  # so that rows without a gradient are there


def test_a_resumed_run_goes_on_exactly(prepared, tmp_path):
    saving = {"save_strategy": "steps", "save_steps": 3}
    straight = trainer_of(prepared, tmp_path / "straight", sparse=True, **saving)
    straight.train()
    shutil.copytree(tmp_path / "straight" / "checkpoint-3", tmp_path / "copy" / "checkpoint-3")
    resumed = trainer_of(prepared, tmp_path / "copy", sparse=True, seed=99, **saving)
    resumed.train(resume_from_checkpoint=True)
    assert_same_outcome(resumed, straight)
    # A checkpoint does not depend on how gradients were held.
    shutil.copytree(tmp_path / "straight" / "checkpoint-3", tmp_path / "dense" / "checkpoint-3")
    dense = trainer_of(prepared, tmp_path / "dense", sparse=False, seed=99, **saving)
    dense.train(resume_from_checkpoint=True)
    torch.testing.assert_close(dense.model.state_dict(), straight.model.state_dict(), rtol=0, atol=1e-5)


def test_only_the_rows_that_were_read_have_a_gradient() -> None:
    model = random_lm(vocab_size=201, num_negative_samples=4).train()
    model.lm_head.sparse_gradient = True
    character_ids, mask = ids([["a", "b"]])
    model(character_ids, mask, labels=mask * 9).loss.backward()
    for parameter in model.lm_head.parameters():
        gradient = parameter.grad.coalesce()
        assert 1 < len(gradient.indices()[0]) <= 2 * 4 + 1
        assert 8 in gradient.indices()[0]


def test_mixed_precision_trains() -> None:
    model = random_lm(dropout=0.0).train()
    model.lm_head.sparse_gradient = True
    character_ids, mask = ids([["a", "b"]])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(character_ids, mask, labels=mask * 9).loss
    loss.backward()
    assert all(parameter.grad.dtype == torch.float32 for parameter in model.parameters())


@pytest.mark.parametrize("options", [{"lm_softmax": "full"}, {"num_negative_samples": 500}])
def test_a_softmax_that_is_not_sampled_stays_dense(prepared, tmp_path, options):
    args = TrainingArguments(output_dir=str(tmp_path), max_steps=1, use_cpu=True, optim="adamw_torch")
    model = model_of(prepared, **options)
    streams = StreamBatches(prepared, batch_size=3, unroll_steps=5)
    BiLMTrainer(model=model, args=args, streams=streams, sparse_softmax_gradient=True).train()
    assert not model.lm_head.sparse_gradient


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optim": "adamw_torch"}, "sparse_softmax_gradient: got optim 'adamw_torch'.*expected 'adagrad' or 'sgd'"),
        ({"weight_decay": 0.1}, "with weight_decay 0.1"),
    ],
)
def test_an_optimiser_that_changes_every_row_is_refused(prepared, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        trainer_of(prepared, tmp_path, sparse=True, **options)
