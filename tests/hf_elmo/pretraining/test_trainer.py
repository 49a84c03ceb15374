import json
import shutil
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerCallback, TrainingArguments, set_seed

from hf_elmo import ElmoForPreTraining
from hf_elmo.pretraining.shards import PreparedCorpus
from hf_elmo.pretraining.streams import HeldoutStreams, StreamBatches
from hf_elmo.pretraining.trainer import BiLMTrainer, model_inputs
from tests.hf_elmo.models import randomise, tiny_config
from tests.hf_elmo.pretraining.prepared_corpora import prepare_sentences

UPDATES = 6


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> PreparedCorpus:
    rng = np.random.default_rng(0)
    sentences = [[f"w{word}" for word in rng.zipf(1.5, rng.integers(1, 9)).clip(max=60)] for _ in range(80)]
    return prepare_sentences(tmp_path_factory.mktemp("corpus"), sentences, {"h": sentences[:9]}, shard_words=80)


def streams_of(prepared: PreparedCorpus) -> StreamBatches:
    return StreamBatches(prepared, batch_size=3, unroll_steps=5, seed=1)


def model_of(prepared: PreparedCorpus, seed: int = 0, **options) -> ElmoForPreTraining:
    model = ElmoForPreTraining(tiny_config(vocab_size=prepared.vocab_size + 1, **options))
    randomise(model, seed)
    return model


def trainer_of(prepared: PreparedCorpus, folder: Path, *, model=None, heldout=None, callbacks=None, **training):
    set_seed(7)
    arguments = {"max_steps": UPDATES, "learning_rate": 0.05, "logging_steps": 1, "save_strategy": "no", **training}
    return BiLMTrainer(
        model=model if model is not None else model_of(prepared, dropout=0.1),
        args=TrainingArguments(output_dir=str(folder), use_cpu=True, disable_tqdm=True, **arguments),
        streams=streams_of(prepared),
        heldout=heldout,
        callbacks=callbacks,
    )


def log_of(trainer: BiLMTrainer) -> list[dict[str, float]]:
    """What was logged of the updates, times left out."""
    kept = ("step", "loss", "grad_norm", "learning_rate", "epoch", "sampled_softmax_loss")
    return [{name: entry[name] for name in kept} for entry in trainer.state.log_history if "loss" in entry]


def assert_same_outcome(one: BiLMTrainer, other: BiLMTrainer) -> None:
    """Bit by bit."""
    assert log_of(one) == log_of(other)
    assert_same_tensors(one.model.state_dict(), other.model.state_dict())
    for state, other_state in zip(one.optimizer.state.values(), other.optimizer.state.values(), strict=True):
        assert_same_tensors(state, other_state)


def assert_same_tensors(one, other) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


def checkpoints(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.name.startswith("checkpoint")}


@pytest.fixture(scope="module")
def straight(prepared, tmp_path_factory) -> BiLMTrainer:
    """A run without a break: dropout, sampled softmax, a checkpoint at half time."""
    trainer = trainer_of(prepared, tmp_path_factory.mktemp("straight"), save_strategy="steps", save_steps=3)
    assert trainer.model.lm_head.sampled
    trainer.train()
    return trainer


class TestTruncatedBackpropagation:
    """Without updates (learning rate 0) and without dropout, a step is a part of one long pass."""

    def train(self, prepared, folder, **training):
        model = model_of(prepared, dropout=0.0, lm_softmax="full")
        trainer = trainer_of(
            prepared, folder, model=model, optim="sgd", learning_rate=0.0, max_grad_norm=0.0, **training
        )
        trainer.train()
        return model, [entry for entry in trainer.state.log_history if "loss" in entry]

    def batches(self, prepared, count):
        return [model_inputs(batch) for batch in islice(streams_of(prepared), count)]

    def test_the_state_goes_on_from_batch_to_batch(self, prepared, tmp_path):
        model, log = self.train(prepared, tmp_path, max_steps=4)
        batches = self.batches(prepared, 4)
        whole = {name: torch.cat([batch[name] for batch in batches], dim=1) for name in batches[0]}
        tops = model.eval()(**whole)
        losses = []
        for top, words in (
            (tops.forward_hidden_state, whole["labels"]),
            (tops.backward_hidden_state, whole["backward_labels"]),
        ):
            probabilities = model.lm_head.logits(top).log_softmax(-1)  # (B, 4 T, V)
            losses.append(-probabilities.gather(-1, words.unsqueeze(-1) - 1).squeeze(-1))
        expected = torch.stack(losses).unflatten(-1, (4, 5)).mean(dim=(0, 1, 3))  # one loss for each batch
        np.testing.assert_allclose([entry["loss"] for entry in log], expected.detach(), atol=1e-5)

    @pytest.mark.parametrize("accumulation", [1, 2])
    def test_the_gradient_stops_at_the_edge_and_is_the_mean_of_the_batches(self, prepared, tmp_path, accumulation):
        model, log = self.train(prepared, tmp_path, max_steps=3, gradient_accumulation_steps=accumulation)
        expected, attached = ([], [])
        for norms, cut in ((expected, True), (attached, False)):
            state = None
            batches = iter(self.batches(prepared, 3 * accumulation))
            model.train()
            for _ in range(3):
                model.zero_grad()
                losses = []
                for batch in islice(batches, accumulation):
                    output = model(**batch, state=state)
                    state = output.state.detach() if cut else output.state
                    losses.append(output.loss)
                torch.stack(losses).mean().backward(retain_graph=not cut)
                norms.append(torch.cat([p.grad.flatten() for p in model.parameters()]).norm().item())
        np.testing.assert_allclose([entry["grad_norm"] for entry in log], expected, rtol=1e-5)
        assert abs(attached[2] / expected[2] - 1) > 1e-3  # so that the cut tells


class TestResume:
    @pytest.fixture
    def copy(self, straight, tmp_path):
        """The run's folder as it was after three updates."""
        shutil.copytree(straight.args.output_dir, tmp_path, dirs_exist_ok=True)
        shutil.rmtree(tmp_path / "checkpoint-6")
        return tmp_path

    def resumed(self, prepared, folder, resume=True, **training):
        """By a process in which everything else is different."""
        model = model_of(prepared, seed=99, dropout=0.1)
        trainer = trainer_of(prepared, folder, model=model, save_strategy="steps", save_steps=3, **training)
        next(trainer.streams)
        torch.rand(5)
        trainer.train(resume_from_checkpoint=resume)
        return trainer

    def test_ends_bit_by_bit_where_the_whole_run_did(self, prepared, straight, copy):
        assert_same_outcome(self.resumed(prepared, copy), straight)
        assert checkpoints(copy) == {"checkpoint-3", "checkpoint-6"}

    def test_from_a_checkpoint_named(self, prepared, straight, tmp_path):
        checkpoint = Path(straight.args.output_dir, "checkpoint-3")
        assert_same_outcome(self.resumed(prepared, tmp_path, resume=str(checkpoint)), straight)

    def test_adam_and_a_schedule(self, prepared, tmp_path):
        options = {"optim": "adamw_torch", "lr_scheduler_type": "cosine", "gradient_accumulation_steps": 2}
        trainer = trainer_of(prepared, tmp_path / "straight", save_strategy="steps", save_steps=3, **options)
        trainer.train()
        shutil.copytree(tmp_path / "straight" / "checkpoint-3", tmp_path / "copy" / "checkpoint-3")
        assert_same_outcome(self.resumed(prepared, tmp_path / "copy", **options), trainer)

    def test_killed_while_a_checkpoint_is_written(self, prepared, straight, tmp_path, monkeypatch):
        def killed(self, checkpoint):
            raise KeyboardInterrupt

        first = trainer_of(prepared, tmp_path, save_strategy="steps", save_steps=3)

        class KillNext(TrainerCallback):
            def on_save(self, args, state, control, **kwargs):
                monkeypatch.setattr(BiLMTrainer, "_save_streams", killed)

        first.add_callback(KillNext())
        with pytest.raises(KeyboardInterrupt):
            first.train()
        monkeypatch.undo()
        assert (tmp_path / ".writing" / "checkpoint-6" / "model.safetensors").is_file()
        assert checkpoints(tmp_path) == {"checkpoint-3"}
        assert_same_outcome(self.resumed(prepared, tmp_path), straight)
        assert not (tmp_path / ".writing").exists()

    def test_a_finished_run_is_not_trained_further(self, prepared, straight):
        trainer = self.resumed(prepared, Path(straight.args.output_dir))
        assert trainer.state.global_step == UPDATES
        assert_same_tensors(trainer.model.state_dict(), straight.model.state_dict())

    def test_time_is_added_up(self, prepared, copy):
        state = json.loads((copy / "checkpoint-3" / "trainer_state.json").read_text())
        state["log_history"][-1]["training_seconds"] = 1000.0
        (copy / "checkpoint-3" / "trainer_state.json").write_text(json.dumps(state))
        assert 1000 < self.resumed(prepared, copy).training_seconds < 1100

    def test_what_cannot_be_resumed_from(self, prepared, copy, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"absent.*holds no checkpoint"):
            self.resumed(prepared, tmp_path / "absent")
        with pytest.raises(FileNotFoundError, match=r"nowhere.*holds no checkpoint"):
            self.resumed(prepared, copy, resume="nowhere")
        other = trainer_of(prepared, copy)
        other.streams = StreamBatches(prepared, batch_size=4, unroll_steps=5, seed=1)
        with pytest.raises(ValueError, match=r"batch_size 3 \(expected 4\)"):
            other.train(resume_from_checkpoint=True)
        (copy / "checkpoint-3" / "stream_cursor-0.json").unlink()
        with pytest.raises(FileNotFoundError, match="as many processes"):
            self.resumed(prepared, copy)


class TestDivergence:
    def test_a_loss_that_is_no_number_stops_training(self, prepared, tmp_path):
        class Poison(TrainerCallback):
            def on_step_begin(self, args, state, control, model=None, **kwargs):
                if state.global_step == 4:
                    with torch.no_grad():
                        model.lm_head.bias[1] = torch.nan

        trainer = trainer_of(
            prepared, tmp_path, save_strategy="steps", save_steps=2, save_total_limit=1, callbacks=[Poison()]
        )
        with pytest.raises(
            FloatingPointError, match=r"loss of nan at update 5\..*last usable checkpoint is .*checkpoint-4"
        ):
            trainer.train()
        assert checkpoints(tmp_path) == {"checkpoint-4"}
        parameters = load_file(tmp_path / "checkpoint-4" / "model.safetensors")
        assert all(torch.isfinite(values).all() for values in parameters.values())

    def test_a_gradient_that_is_none_is_not_saved(self, prepared, tmp_path):
        """The loss of the update is a number; the parameters after it are none."""
        trainer = trainer_of(prepared, tmp_path, save_strategy="steps", save_steps=1, save_total_limit=1)
        calls = []

        def poisoned(gradient):
            calls.append(1)
            return gradient * (torch.nan if len(calls) == 3 else 1)

        trainer.model.lm_head.bias.register_hook(poisoned)
        with pytest.raises(FloatingPointError, match=r"no numbers after update 3\..*checkpoint-2"):
            trainer.train()
        assert checkpoints(tmp_path) == {"checkpoint-2"}
        with pytest.raises(FloatingPointError):
            trainer.save_model()
        assert not (tmp_path / "model.safetensors").exists()

    def test_without_a_checkpoint(self, prepared, tmp_path):
        model = model_of(prepared)
        model.lm_head.bias.data.fill_(torch.inf)
        with pytest.raises(FloatingPointError, match="no checkpoint yet"):
            trainer_of(prepared, tmp_path, model=model).train()


class TestEvaluation:
    def heldout(self, prepared):
        return {"h": lambda: HeldoutStreams(prepared, "heldout-h", batch_size=2, unroll_steps=4)}

    def test_does_not_disturb_training(self, prepared, tmp_path):
        plain = trainer_of(prepared, tmp_path)
        plain.train()
        evaluated = trainer_of(prepared, tmp_path, heldout=self.heldout(prepared), eval_strategy="steps", eval_steps=1)
        evaluated.train()
        assert_same_outcome(plain, evaluated)
        logged = [entry for entry in evaluated.state.log_history if "eval_h_perplexity" in entry]
        assert len(logged) == UPDATES
        product = logged[0]["eval_h_forward_perplexity"] * logged[0]["eval_h_backward_perplexity"]
        assert logged[0]["eval_h_perplexity"] == pytest.approx(product**0.5)
        assert logged[0]["eval_loss"] == pytest.approx(np.log(logged[0]["eval_h_perplexity"]))

    def test_the_best_checkpoint_is_kept_and_loaded(self, prepared, tmp_path):
        options = {
            "heldout": self.heldout(prepared),
            "eval_strategy": "steps",
            "eval_steps": 1,
            "save_strategy": "steps",
            "save_steps": 1,
            "save_total_limit": 1,
            "load_best_model_at_end": True,
            "metric_for_best_model": "loss",
            "learning_rate": 1.0,  # far too high, so that the first updates are the best
        }
        trainer = trainer_of(prepared, tmp_path, **options)
        trainer.train()
        losses = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
        best = 1 + int(np.argmin(losses))
        assert best < UPDATES
        assert Path(trainer.state.best_model_checkpoint) == tmp_path / f"checkpoint-{best}"
        assert_same_tensors(
            dict(trainer.model.state_dict()), load_file(tmp_path / f"checkpoint-{best}" / "model.safetensors")
        )
        saved = json.loads((tmp_path / f"checkpoint-{best}" / "trainer_state.json").read_text())
        assert saved["best_model_checkpoint"] == trainer.state.best_model_checkpoint
        finished = trainer_of(prepared, tmp_path, **options)
        finished.train(resume_from_checkpoint=True)
        assert_same_tensors(finished.model.state_dict(), trainer.model.state_dict())


def test_the_log_tells_speed_time_and_epochs_of_the_text(prepared, tmp_path, monkeypatch):
    clock = SimpleNamespace(now=100.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr("hf_elmo.pretraining.trainer.time", clock)

    class TwoSecondsAnUpdate(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            clock.now += 2

    trainer = trainer_of(
        prepared, tmp_path, logging_steps=3, gradient_accumulation_steps=2, callbacks=[TwoSecondsAnUpdate()]
    )
    trainer.train()
    log = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert [entry["training_seconds"] for entry in log] == [6, 12]
    assert [entry["words_per_second"] for entry in log] == [
        3 * 2 * (3 * 5) / 6
    ] * 2  # an update reads 2 batches of 3 x 5
    read = streams_of(prepared)
    list(islice(read, 6))
    assert log[0]["epoch"] == read.epoch > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_steps": -1}, "number of updates"),
        ({"save_strategy": "epoch"}, 'save_strategy.*"steps" or "no"'),
        ({"logging_strategy": "epoch"}, "logging_strategy"),
        ({"push_to_hub": True}, "hf-elmo publish"),
        ({"auto_find_batch_size": True}, "auto_find_batch_size"),
    ],
)
def test_arguments_that_streams_cannot_follow(prepared, tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        trainer_of(prepared, tmp_path, **arguments)


def test_several_gpus_need_several_processes(prepared, tmp_path, monkeypatch):
    monkeypatch.setattr(TrainingArguments, "n_gpu", 2)
    with pytest.raises(ValueError, match="torchrun --nproc_per_node 2"):
        trainer_of(prepared, tmp_path)
