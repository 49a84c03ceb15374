"""What a run from random values and an adaptation share: a trainer, its progress, and held-out text."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import ProgressCallback, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.modeling_elmo import ElmoForPreTraining
from hf_elmo.pretraining.adagrad_start import StartedAdagrad
from hf_elmo.pretraining.arguments import PretrainingOptions
from hf_elmo.pretraining.machine_limit import machine_limit
from hf_elmo.pretraining.progress import TrainingProgress
from hf_elmo.pretraining.sentence_batches import SentenceBatches
from hf_elmo.pretraining.shards import HELDOUT_PREFIX, PreparedCorpus
from hf_elmo.pretraining.streams import StreamBatches
from hf_elmo.pretraining.text import heldout_text, training_text
from hf_elmo.pretraining.trainer import Batch, BiLMTrainer
from hf_elmo.tokenization_elmo import ElmoTokenizer

logger = logging.getLogger(__name__)

_ADAGRAD = "adagrad"
_LEAST_AGREEMENT = 0.8  # of the words that a recipe counts and those that the text has


def make_trainer(
    model: ElmoForPreTraining,
    tokenizer: ElmoTokenizer,
    prepared: PreparedCorpus,
    options: PretrainingOptions,
    training: TrainingArguments,
    *,
    adagrad_sums: dict[nn.Parameter, Tensor] | None = None,
    **kwargs: Any,
) -> BiLMTrainer:
    """The trainer of `model` on `prepared`, whose first words are the model's vocabulary.

    Args:
        model, tokenizer, prepared, options, training: of the run.
        adagrad_sums: where Adagrad's accumulators start, instead of at one constant.
        kwargs: as in Trainer.
    """
    config = model.config
    streams = training_text(
        prepared,
        training,
        text_as=options.text_as,
        unroll_steps=options.unroll_steps,
        shuffle=options.shuffle,
        vocab_size=config.vocab_size - 1,
        max_characters_per_word=config.max_characters_per_word,
    )
    if training.max_steps <= 0:
        batches_per_epoch = _batches_per_epoch(streams, prepared, options, training)
        updates_per_epoch = batches_per_epoch / training.gradient_accumulation_steps
        training.max_steps = max(1, round(training.num_train_epochs * updates_per_epoch))
    return BiLMTrainer(
        model=model,
        args=training,
        streams=streams,
        heldout=heldout_passes(prepared, config, options, training, num_tokens=options.heldout_tokens),
        loss_scale=options.unroll_steps if options.scale_loss_by_unroll_steps else 1.0,
        sparse_softmax_gradient=options.sparse_softmax_gradient,
        optimizer_cls_and_kwargs=optimizer(options, training, adagrad_sums),
        processing_class=tokenizer,
        **kwargs,
    )


def train(trainer: BiLMTrainer, prepared: PreparedCorpus) -> None:
    """Train, from a checkpoint on if the arguments name one, and save the model."""
    training = trainer.args
    # Trainer seeds every process alike; each draws its own dropout and negatives.
    set_seed(training.seed + training.process_index)
    resume = training.resume_from_checkpoint
    with _shown_progress(trainer, prepared):
        trainer.train(resume_from_checkpoint=True if str(resume).lower() == "true" else resume)
    trainer.save_result()


def evaluate_whole_texts(
    trainer: BiLMTrainer, prepared: PreparedCorpus, options: PretrainingOptions
) -> dict[str, float]:
    """Perplexity on all of every held-out text."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    trainer.heldout = heldout_passes(prepared, model.config, options, trainer.args, num_tokens=0)
    return trainer.evaluate()


def heldout_passes(
    prepared: PreparedCorpus,
    config: ElmoConfig,
    options: PretrainingOptions,
    training: TrainingArguments,
    *,
    num_tokens: int,
) -> dict[str, Callable[[], Iterable[Batch]]]:
    """Per held-out text a function that begins a pass over its first `num_tokens` words, or all of it for 0."""

    def begin(split: str) -> Iterable[Batch]:
        return heldout_text(
            prepared,
            split,
            text_as=options.text_as,
            batch_size=training.per_device_eval_batch_size,
            unroll_steps=options.unroll_steps,
            vocab_size=config.vocab_size - 1,
            max_characters_per_word=config.max_characters_per_word,
            num_tokens=num_tokens,
        )

    return {split.removeprefix(HELDOUT_PREFIX): partial(begin, split) for split in prepared.heldout_splits}


def check_output_dir(training: TrainingArguments, config: ElmoConfig) -> None:
    """A folder's checkpoints belong to one run, of one model."""
    folder = str(training.output_dir)
    last = get_last_checkpoint(folder) if Path(folder).is_dir() else None
    resume = training.resume_from_checkpoint
    if last is not None and not resume:
        raise ValueError(
            f"output_dir: got {folder!r}, which holds {Path(last).name} of an earlier run; expected a new folder, or "
            "--resume_from_checkpoint true to go on with that run."
        )
    checkpoint = last if str(resume).lower() == "true" else resume
    if checkpoint and (Path(checkpoint) / "config.json").is_file():
        saved = ElmoConfig.from_pretrained(checkpoint)
        for name in ElmoConfig.__annotations__:
            if getattr(saved, name) != getattr(config, name):
                raise ValueError(
                    f"{name}: got {getattr(config, name)!r}; expected {getattr(saved, name)!r}, as in {checkpoint}."
                )


def optimizer(
    options: PretrainingOptions, training: TrainingArguments, sums: dict[nn.Parameter, Tensor] | None = None
) -> tuple[Any, dict[str, Any]] | None:
    """Trainer's own Adagrad cannot start its accumulator where the reference does."""
    if training.optim != _ADAGRAD:
        return None
    if options.adagrad_accumulator <= 0:
        raise ValueError(f"adagrad_accumulator: got {options.adagrad_accumulator}; expected a positive number.")
    arguments = {"lr": training.learning_rate, "initial_accumulator_value": options.adagrad_accumulator, "eps": 0.0}
    if sums is not None:
        return StartedAdagrad, {**arguments, "sums": sums}
    return torch.optim.Adagrad, arguments


def _batches_per_epoch(
    streams: StreamBatches | SentenceBatches,
    prepared: PreparedCorpus,
    options: PretrainingOptions,
    training: TrainingArguments,
) -> int:
    """Of a process; those of the text, or of as many words as the recipe counts."""
    if options.words_per_epoch is None:
        return streams.batches_per_epoch
    if options.words_per_epoch < 1:
        raise ValueError(f"words_per_epoch: got {options.words_per_epoch}; expected a positive integer.")
    words = prepared.split_report("train")["tokens"]
    if not _LEAST_AGREEMENT < options.words_per_epoch / words < 1 / _LEAST_AGREEMENT:
        logger.warning(
            "words_per_epoch (n_train_tokens in an options.json): got %s, and the text has %s: %g epochs of the recipe "
            "are %.3g passes over it.  For passes over the text itself add --words_per_epoch %d.",
            f"{options.words_per_epoch:,}",
            f"{words:,}",
            training.num_train_epochs,
            training.num_train_epochs * options.words_per_epoch / words,
            words,
        )
    return max(1, int(options.words_per_epoch / (streams.predictions_per_batch * training.world_size)))


@contextmanager
def _shown_progress(trainer: BiLMTrainer, prepared: PreparedCorpus) -> Iterator[None]:
    """Our own line in place of Trainer's bar, where that was asked for; the machine's limit for it and the log."""
    training = trainer.args
    trainer.machine_limit = machine_limit(
        trainer.accelerator.unwrap_model(trainer.model).config,
        prepared,
        words_per_batch=trainer.words_per_update // (training.gradient_accumulation_steps * training.world_size),
        device=training.device,
        dtype=torch.bfloat16 if training.bf16 else torch.float16 if training.fp16 else torch.float32,
        processes=training.world_size,
    )
    if trainer.is_world_process_zero():
        logger.info("%s", trainer.machine_limit)
    progress = TrainingProgress(words_per_update=trainer.words_per_update, machine_limit=trainer.machine_limit)
    # Not in a notebook, where Trainer's is another, nor with --disable_tqdm true.
    if trainer.pop_callback(ProgressCallback) is not None:
        trainer.add_callback(progress)
    try:
        yield
    finally:
        progress.close()
