"""Training on whole sentences, each by itself."""

import shutil
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import TrainerCallback, TrainingArguments, set_seed

from hf_elmo.perplexity import perplexity
from hf_elmo.pretraining.sentence_batches import SentenceBatches
from hf_elmo.pretraining.shards import PreparedCorpus
from hf_elmo.pretraining.streams import StreamBatches
from hf_elmo.pretraining.text import heldout_text
from hf_elmo.pretraining.trainer import BiLMTrainer, model_inputs
from tests.hf_elmo.pretraining.prepared_corpora import prepare_sentences
from tests.hf_elmo.pretraining.test_trainer import assert_same_outcome, assert_same_tensors, model_of

SENTENCES = [
    [f"w{word}" for word in np.random.default_rng(number).zipf(1.5, 1 + number % 8).clip(max=60)]
    for number in range(80)
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> PreparedCorpus:
    return prepare_sentences(tmp_path_factory.mktemp("corpus"), SENTENCES, {"h": SENTENCES[:30]}, shard_words=80)


def sentences_of(prepared: PreparedCorpus, **options) -> SentenceBatches:
    return SentenceBatches(prepared, **{"words_per_batch": 24, "seed": 1, **options})


def trainer_of(prepared: PreparedCorpus, folder: Path, *, model=None, streams=None, callbacks=None, **training):
    set_seed(7)
    arguments = {"max_steps": 6, "learning_rate": 0.05, "logging_steps": 1, "save_strategy": "no", **training}
    return BiLMTrainer(
        model=model if model is not None else model_of(prepared, dropout=0.1),
        args=TrainingArguments(output_dir=str(folder), use_cpu=True, disable_tqdm=True, **arguments),
        streams=sentences_of(prepared) if streams is None else streams,
        callbacks=callbacks,
    )


@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize("initial_state", ["zero", "warm", "carry"])
def test_an_update_is_that_of_all_its_words_in_one_batch(prepared, tmp_path, accumulation, initial_state):
    """Batches of different numbers of words; each sentence begins in the configured state, in every batch."""
    options = {"dropout": 0.0, "lm_softmax": "full", "initial_state": initial_state}
    model, expected = model_of(prepared, **options), model_of(prepared, **options)
    if initial_state == "warm":
        for lm in (model, expected):
            lm.elmo.initial_state.cell.fill_(0.4)
            lm.elmo.initial_state.hidden.fill_(-0.2)
    sgd = {"optim": "sgd", "lr_scheduler_type": "constant", "learning_rate": 0.1, "max_grad_norm": 0.0}
    trainer = trainer_of(prepared, tmp_path, model=model, max_steps=2, gradient_accumulation_steps=accumulation, **sgd)
    trainer.train()
    log = [entry for entry in trainer.state.log_history if "loss" in entry]
    batches = iter(map(model_inputs, sentences_of(prepared)))
    for entry in log:
        rows = [
            {name: values[row] for name, values in batch.items()}
            for batch in islice(batches, accumulation)
            for row in range(len(batch["labels"]))
        ]
        joint = {
            name: pad_sequence([row[name] for row in rows], batch_first=True, padding_value=padding)
            for name, padding in (("character_ids", 0), ("attention_mask", 0), ("labels", -100))
        }
        expected.zero_grad()
        loss = expected.train()(**joint).loss
        loss.backward()
        assert entry["loss"] == pytest.approx(loss.item(), rel=1e-5)
        norm = torch.cat([parameter.grad.flatten() for parameter in expected.parameters()]).norm().item()
        assert entry["grad_norm"] == pytest.approx(norm, rel=1e-5)
        with torch.no_grad():
            for parameter in expected.parameters():
                parameter -= 0.1 * parameter.grad
    torch.testing.assert_close(dict(model.named_parameters()), dict(expected.named_parameters()), rtol=0, atol=1e-6)


class TestResume:
    @pytest.mark.parametrize("accumulation", [1, 2])
    def test_ends_bit_by_bit_where_the_whole_run_did(self, prepared, tmp_path, accumulation):
        saving = {"save_strategy": "steps", "save_steps": 3, "gradient_accumulation_steps": accumulation}
        straight = trainer_of(prepared, tmp_path / "straight", **saving)
        straight.train()
        files = {path.name for path in (tmp_path / "straight" / "checkpoint-3").iterdir()}
        assert "stream_cursor-0.json" in files
        assert "stream_state-0.safetensors" not in files
        shutil.copytree(tmp_path / "straight" / "checkpoint-3", tmp_path / "copy" / "checkpoint-3")
        resumed = trainer_of(prepared, tmp_path / "copy", model=model_of(prepared, seed=99, dropout=0.1), **saving)
        next(iter(resumed.streams))
        torch.rand(5)
        resumed.train(resume_from_checkpoint=True)
        assert_same_outcome(resumed, straight)
        assert resumed.streams.state_dict() == straight.streams.state_dict()

    def test_streams_and_sentences_do_not_go_on_from_each_other(self, prepared, tmp_path):
        saving = {"save_strategy": "steps", "save_steps": 1, "max_steps": 1}
        streams = StreamBatches(prepared, batch_size=3, unroll_steps=5)
        trainer_of(prepared, tmp_path / "streams", streams=streams, **saving).train()
        trainer_of(prepared, tmp_path / "sentences", **saving).train()
        with pytest.raises(ValueError, match=r"data state of streams, expected one of sentences.*text_as streams"):
            trainer_of(prepared, tmp_path / "streams", **saving).train(resume_from_checkpoint=True)
        with pytest.raises(ValueError, match=r"data state of sentences, expected one of streams.*text_as sentences"):
            trainer_of(prepared, tmp_path / "sentences", streams=streams, **saving).train(resume_from_checkpoint=True)


def test_the_log_counts_predicted_words_and_epochs(prepared, tmp_path, monkeypatch):
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
    again = sentences_of(prepared)
    batches = iter(again)
    for entry in log:
        predicted = sum(int((batch["labels"][:, 1:] > 0).sum()) for batch in islice(batches, 6))
        assert entry["words_per_second"] == pytest.approx(predicted / 6, abs=0.05)
        assert entry["epoch"] == again.epoch > 0


class TestHeldout:
    def read(self, prepared: PreparedCorpus, num_tokens: int) -> list[dict[str, torch.Tensor]]:
        sizes = {"batch_size": 3, "unroll_steps": 5, "vocab_size": prepared.vocab_size, "max_characters_per_word": 50}
        text = heldout_text(prepared, "heldout-h", text_as="sentences", num_tokens=num_tokens, **sizes)
        return list(map(model_inputs, text))

    def test_perplexity_is_that_of_each_sentence_alone(self, prepared):
        """The same text as a model sees it that is asked one sentence at a time, by its log-probabilities."""
        model = model_of(prepared, lm_softmax="full").eval()
        losses: list[list[float]] = [[], []]
        for batch in self.read(prepared, 0):
            for ids, mask, labels in zip(batch["character_ids"], batch["attention_mask"], batch["labels"], strict=True):
                words = int(mask.sum())
                with torch.no_grad():
                    output = model(ids[None, :words])
                    forward = model.lm_head.log_probabilities(output.forward_hidden_state[0, :-1])
                    backward = model.lm_head.log_probabilities(output.backward_hidden_state[0, 1:])
                rows = labels[:words] - 1
                losses[0] += (-forward.gather(1, rows[1:, None])).flatten().tolist()
                losses[1] += (-backward.gather(1, rows[:-1, None])).flatten().tolist()
        result = perplexity(model, self.read(prepared, 0))
        assert result.predictions == len(losses[0]) == sum(len(words) + 1 for words in SENTENCES[:30])
        assert (result.forward, result.backward) == pytest.approx([np.exp(np.mean(of)) for of in losses], rel=1e-5)
        carrying = model_of(prepared, lm_softmax="full", initial_state="carry")
        assert perplexity(carrying, self.read(prepared, 0)) == result

    def test_a_part_of_the_text_holds_sentences_of_every_length(self, prepared):
        whole, part = self.read(prepared, 0), self.read(prepared, 40)
        assert 0 < len(part) < len(whole)
        lengths = [int(mask.sum()) - 2 for batch in part for mask in batch["attention_mask"]]
        assert 20 <= sum(lengths) <= 80
        assert max(lengths) - min(lengths) >= 4
        assert self.read(prepared, 1)  # fewer words than any batch has


def test_evaluation_does_not_disturb_training(prepared, tmp_path):
    plain = trainer_of(prepared, tmp_path)
    plain.train()
    evaluated = trainer_of(prepared, tmp_path, eval_strategy="no")
    evaluated.heldout = {"h": lambda: sentences_of(prepared, split="heldout-h", endless=False)}

    class Evaluate(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            evaluated.evaluate()

    evaluated.add_callback(Evaluate())
    evaluated.train()
    assert_same_tensors(plain.model.state_dict(), evaluated.model.state_dict())
    assert sum("eval_h_perplexity" in entry for entry in evaluated.state.log_history) == 6
