"""One pretraining run: from a recipe and a prepared corpus to a model folder."""

from __future__ import annotations

import itertools
import json
import logging
import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.modeling_elmo import ElmoForPreTraining
from hf_elmo.new_file import write_file
from hf_elmo.pretraining.arguments import PretrainingOptions, model_config, parse_arguments, read_mapping
from hf_elmo.pretraining.model_card import model_card
from hf_elmo.pretraining.shards import HELDOUT_PREFIX, PreparedCorpus
from hf_elmo.pretraining.softmax_start import start_at_word_frequencies
from hf_elmo.pretraining.streams import HeldoutStreams, StreamBatches
from hf_elmo.pretraining.trainer import Batch, BiLMTrainer
from hf_elmo.tokenization_elmo import ElmoTokenizer

_ADAGRAD = "adagrad"


def pretrain(options: PretrainingOptions, training: TrainingArguments, model_options: dict[str, Any]) -> BiLMTrainer:
    """Train, evaluate, and write to `training.output_dir`: model, tokenizer, held-out perplexity, log, model card.

    Goes on from `training.resume_from_checkpoint` ("true" for the last checkpoint of the output folder).

    Raises:
        OSError, ValueError: the corpus or an option is not as it should be; nothing was written.
        FloatingPointError: training diverged.
    """
    prepared = PreparedCorpus.open(options.prepared)
    vocabulary = prepared.vocabulary(options.vocab_size)
    config = model_config(len(vocabulary), model_options)
    licences = read_licences(options, prepared)
    check_output_dir(training, config)
    set_seed(training.seed)
    model = ElmoForPreTraining(config)
    if options.start_at_word_frequencies:
        start_at_word_frequencies(model.lm_head, prepared.counts, prepared.split_report("train")["sentences"])
    tokenizer = ElmoTokenizer(vocab=vocabulary, max_characters_per_word=config.max_characters_per_word)
    trainer = make_trainer(model, tokenizer, prepared, options, training)
    train(trainer)
    seconds = trainer.training_seconds
    metrics = evaluate_whole_texts(trainer, prepared, options)
    if trainer.is_world_process_zero():
        card = card_of(trainer, prepared, options, metrics, seconds=seconds, licences=licences)
        write_results(trainer, metrics, card)
    return trainer


def make_trainer(
    model: ElmoForPreTraining,
    tokenizer: ElmoTokenizer,
    prepared: PreparedCorpus,
    options: PretrainingOptions,
    training: TrainingArguments,
    **kwargs: Any,
) -> BiLMTrainer:
    """The trainer of `model` on `prepared`, whose first words are the model's vocabulary; `kwargs` as in Trainer."""
    config = model.config
    streams = StreamBatches(
        prepared,
        batch_size=training.per_device_train_batch_size,
        unroll_steps=options.unroll_steps,
        vocab_size=config.vocab_size - 1,
        seed=training.data_seed if training.data_seed is not None else training.seed,
        shuffle=options.shuffle,
        rank=training.process_index,
        world_size=training.world_size,
        max_characters_per_word=config.max_characters_per_word,
    )
    if training.max_steps <= 0:
        updates_per_epoch = streams.batches_per_epoch / training.gradient_accumulation_steps
        training.max_steps = max(1, round(training.num_train_epochs * updates_per_epoch))
    return BiLMTrainer(
        model=model,
        args=training,
        streams=streams,
        heldout=heldout_passes(prepared, config, options, training, num_tokens=options.heldout_tokens),
        loss_scale=options.unroll_steps if options.scale_loss_by_unroll_steps else 1.0,
        optimizer_cls_and_kwargs=_optimizer(options, training),
        processing_class=tokenizer,
        **kwargs,
    )


def train(trainer: BiLMTrainer) -> None:
    """Train, from a checkpoint on if the arguments name one, and save the model."""
    training = trainer.args
    # Trainer seeds every process alike; each draws its own dropout and negatives.
    set_seed(training.seed + training.process_index)
    resume = training.resume_from_checkpoint
    trainer.train(resume_from_checkpoint=True if str(resume).lower() == "true" else resume)
    trainer.save_model()


def evaluate_whole_texts(
    trainer: BiLMTrainer, prepared: PreparedCorpus, options: PretrainingOptions
) -> dict[str, float]:
    """Perplexity on all of every held-out text."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    trainer.heldout = heldout_passes(prepared, model.config, options, trainer.args, num_tokens=0)
    return trainer.evaluate()


def card_of(
    trainer: BiLMTrainer,
    prepared: PreparedCorpus,
    options: PretrainingOptions,
    metrics: dict[str, float],
    *,
    seconds: float,
    licences: dict[str, str],
    **kwargs: Any,
) -> str:
    """The model card of a run; `kwargs` as in `model_card`."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    return model_card(
        model.config,
        report_for(prepared, model.config.vocab_size - 1),
        trainer.state.log_history,
        metrics,
        name=Path(str(trainer.args.output_dir)).resolve().name,
        seconds=seconds,
        hardware=_hardware(trainer.args),
        words_per_update=trainer.words_per_update,
        settings=_settings(options, trainer.args, model),
        licences=licences,
        model_licence=options.model_licence,
        language=options.language,
        **kwargs,
    )


def write_results(trainer: BiLMTrainer, metrics: Mapping[str, Any], card: str) -> None:
    """Held-out perplexity, log and model card, into the run's folder."""
    folder = Path(str(trainer.args.output_dir))
    write_file(folder / "heldout_perplexity.json", json.dumps(metrics, indent=1) + "\n")
    write_file(folder / "training_log.json", json.dumps(trainer.state.log_history, indent=1) + "\n")
    write_file(folder / "README.md", card)


def heldout_passes(
    prepared: PreparedCorpus,
    config: ElmoConfig,
    options: PretrainingOptions,
    training: TrainingArguments,
    *,
    num_tokens: int,
) -> dict[str, Callable[[], Iterable[Batch]]]:
    """Per held-out text a function that begins a pass over its first `num_tokens` words, or all of it for 0."""
    batch_size = training.per_device_eval_batch_size
    num_batches = max(1, num_tokens // (batch_size * options.unroll_steps)) if num_tokens else None

    def begin(split: str) -> Iterable[Batch]:
        streams = HeldoutStreams(
            prepared,
            split,
            batch_size=batch_size,
            unroll_steps=options.unroll_steps,
            vocab_size=config.vocab_size - 1,
            max_characters_per_word=config.max_characters_per_word,
        )
        return itertools.islice(streams, num_batches)

    return {split.removeprefix(HELDOUT_PREFIX): partial(begin, split) for split in prepared.heldout_splits}


def read_licences(options: PretrainingOptions, prepared: PreparedCorpus) -> dict[str, str]:
    """The licences of `--data_licences`, by source.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not a mapping, or a source that the corpus does not have.
    """
    if options.data_licences is None:
        return {}
    path = Path(options.data_licences)
    licences = read_mapping(path)
    sources = {source for split in prepared.splits for source in prepared.split_report(split)["sources"]}
    for source in licences:
        if source not in sources:
            raise ValueError(f"{path}: got the source {source!r}; expected some of {', '.join(sorted(sources))}.")
    return {source: str(text) for source, text in licences.items()}


def report_for(prepared: PreparedCorpus, vocab_size: int) -> dict[str, Any]:
    """The corpus's report, its shares of unknown words counted anew for a vocabulary of another size."""
    if vocab_size == prepared.vocab_size:
        return prepared.report
    splits = {}
    for split in prepared.splits:
        unknown = sum(int((shard.words >= vocab_size).sum()) for shard in prepared.read_split(split))
        report = prepared.split_report(split)
        splits[split] = {**report, "oov_tokens": unknown, "oov_rate": round(unknown / max(1, report["tokens"]), 6)}
    return {**prepared.report, "vocab_size": vocab_size, "splits": splits}


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


def _optimizer(options: PretrainingOptions, training: TrainingArguments) -> tuple[Any, dict[str, Any]] | None:
    """Trainer's own Adagrad cannot start its accumulator where the reference does."""
    if training.optim != _ADAGRAD:
        return None
    if options.adagrad_accumulator <= 0:
        raise ValueError(f"adagrad_accumulator: got {options.adagrad_accumulator}; expected a positive number.")
    arguments = {"lr": training.learning_rate, "initial_accumulator_value": options.adagrad_accumulator, "eps": 0.0}
    return torch.optim.Adagrad, arguments


def _settings(options: PretrainingOptions, training: TrainingArguments, model: ElmoForPreTraining) -> dict[str, Any]:
    """What the model card tells of the optimisation."""
    head = model.lm_head
    return {
        "optimiser": str(getattr(training.optim, "value", training.optim)),
        "learning rate": f"{training.learning_rate:g}, {getattr(training.lr_scheduler_type, 'value', '')}",
        "warm-up updates": training.get_warmup_steps(training.max_steps),
        "gradient clipped at norm": training.max_grad_norm,
        "streams": training.per_device_train_batch_size * training.world_size,
        "words between updates (truncated BPTT)": options.unroll_steps,
        "dropout": model.config.dropout,
        "softmax while training": f"sampled, {head.num_negative_samples:,} negatives" if head.sampled else "full",
        "gradient of the loss times the unrolled words": "yes" if options.scale_loss_by_unroll_steps else "no",
        "mixed precision": "bf16" if training.bf16 else "fp16" if training.fp16 else "no",
        "seed": training.seed,
    }


def _hardware(training: TrainingArguments) -> str:
    if training.device.type == "cuda":
        return f"{training.world_size} × {torch.cuda.get_device_name()}"
    threads = f"{torch.get_num_threads()} thread{'s' if torch.get_num_threads() > 1 else ''}"
    return f"{training.world_size} × {threads} of a CPU ({platform.processor() or platform.machine()})"


def main(arguments: Sequence[str]) -> int:
    """Run from the command line; returns the exit status: 2 where the input is at fault, 1 where training diverged."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        pretrain(*parse_arguments(arguments)).accelerator.end_training()
    except (OSError, ValueError, ImportError) as error:
        print(f"hf-elmo pretrain: {error}", file=sys.stderr)
        return 2
    except FloatingPointError as error:
        print(f"hf-elmo pretrain: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
