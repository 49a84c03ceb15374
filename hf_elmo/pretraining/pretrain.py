"""One pretraining run: from a recipe and a prepared corpus to a model folder."""

from __future__ import annotations

import json
import logging
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import ProgressCallback, TrainingArguments, set_seed
from transformers.trainer_utils import IntervalStrategy, get_last_checkpoint

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.modeling_elmo import ElmoForPreTraining
from hf_elmo.pretraining.adagrad_start import StartedAdagrad
from hf_elmo.pretraining.arguments import PretrainingOptions, model_config, parse_arguments, read_mapping
from hf_elmo.pretraining.checkpoint_error import CheckpointError, unwritten_checkpoint
from hf_elmo.pretraining.init_from import Start
from hf_elmo.pretraining.learning_curve import FIGURE, TRAINING_LOG, curve_of, draw_curves
from hf_elmo.pretraining.machine_limit import machine_limit
from hf_elmo.pretraining.model_card import model_card
from hf_elmo.pretraining.progress import TrainingProgress
from hf_elmo.pretraining.sentence_batches import SentenceBatches
from hf_elmo.pretraining.shards import HELDOUT_PREFIX, PreparedCorpus
from hf_elmo.pretraining.softmax_start import start_at_word_frequencies
from hf_elmo.pretraining.streams import StreamBatches
from hf_elmo.pretraining.text import heldout_text, training_text
from hf_elmo.pretraining.trainer import WRITING, Batch, BiLMTrainer
from hf_elmo.pretraining.word_vector_start import read_word_vectors, start_softmax_from, start_token_layer_from
from hf_elmo.tokenization_elmo import ElmoTokenizer

logger = logging.getLogger(__name__)

_ADAGRAD = "adagrad"
_LEAST_AGREEMENT = 0.8  # of the words that a recipe counts and those that the text has


def pretrain(options: PretrainingOptions, training: TrainingArguments, model_options: dict[str, Any]) -> BiLMTrainer:
    """Train, evaluate, and write to `training.output_dir`: model, tokenizer, held-out perplexity, log, model card.

    Goes on from `training.resume_from_checkpoint` ("true" for the last checkpoint of the output folder).

    Raises:
        OSError, ValueError: the corpus or an option is not as it should be; nothing was written.
        FloatingPointError: training diverged.
        CheckpointError: a checkpoint or the result could not be written; the checkpoints before are as they were.
    """
    prepared = PreparedCorpus.open(options.prepared)
    vocabulary = prepared.vocabulary(options.vocab_size)
    start = None if options.init_from is None else Start(options.init_from, vocabulary, model_options)
    config = model_config(len(vocabulary), model_options) if start is None else start.config
    licences = read_licences(options, prepared)
    _check_output_dir(training, config)
    set_seed(training.seed)
    model = ElmoForPreTraining(config) if start is None else start.load_model()
    if options.start_at_word_frequencies and start is None:
        start_at_word_frequencies(model.lm_head, prepared.counts, prepared.split_report("train")["sentences"])
    if options.word_vectors is not None and not training.resume_from_checkpoint:
        _start_from_word_vectors(model, prepared, options, seed=training.seed)
    streams = training_text(
        prepared,
        training,
        text_as=options.text_as,
        unroll_steps=options.unroll_steps,
        shuffle=options.shuffle,
        vocab_size=len(vocabulary),
        max_characters_per_word=config.max_characters_per_word,
    )
    if training.max_steps <= 0:
        batches_per_epoch = _batches_per_epoch(streams, prepared, options, training)
        updates_per_epoch = batches_per_epoch / training.gradient_accumulation_steps
        training.max_steps = max(1, round(training.num_train_epochs * updates_per_epoch))
    trainer = BiLMTrainer(
        model=model,
        args=training,
        streams=streams,
        heldout=heldout_passes(prepared, config, options, training, num_tokens=options.heldout_tokens),
        loss_scale=options.unroll_steps if options.scale_loss_by_unroll_steps else 1.0,
        sparse_softmax_gradient=options.sparse_softmax_gradient,
        optimizer_cls_and_kwargs=_optimizer(options, training, None if start is None else start.adagrad_sums(model)),
        processing_class=ElmoTokenizer(vocab=vocabulary, max_characters_per_word=config.max_characters_per_word),
    )
    # Trainer seeds every process alike; each draws its own dropout and negatives.
    set_seed(training.seed + training.process_index)
    resume = training.resume_from_checkpoint
    with _shown_progress(trainer, prepared):
        trainer.train(resume_from_checkpoint=True if str(resume).lower() == "true" else resume)
    trainer.save_result()
    seconds = trainer.training_seconds
    trainer.heldout = heldout_passes(prepared, config, options, training, num_tokens=0)
    metrics = trainer.evaluate()
    if trainer.is_world_process_zero():
        folder = Path(str(training.output_dir))
        log = trainer.state.log_history
        with unwritten_checkpoint("the model card", folder / WRITING, last_checkpoint=trainer.last_checkpoint):
            _write(folder / "heldout_perplexity.json", json.dumps(metrics, indent=1) + "\n")
            _write(folder / TRAINING_LOG, json.dumps(log, indent=1) + "\n")
            card = model_card(
                config,
                report_for(prepared, len(vocabulary)),
                log,
                metrics,
                name=folder.resolve().name,
                seconds=seconds,
                hardware=_hardware(training),
                words_per_update=trainer.words_per_update,
                settings=_settings(options, training, model),
                text_as=options.text_as,
                licences=licences,
                model_licence=options.model_licence,
                language=options.language,
                figure=_draw_figure(log, folder),
                figure_words=0 if training.eval_strategy == IntervalStrategy.NO else options.heldout_tokens,
            )
            _write(folder / "README.md", card)
    return trainer


def _start_from_word_vectors(
    model: ElmoForPreTraining, prepared: PreparedCorpus, options: PretrainingOptions, *, seed: int
) -> None:
    assert options.word_vectors is not None
    words = prepared.words
    vectors = read_word_vectors(options.word_vectors, words)
    start_softmax_from(model, vectors)
    if options.word_vector_steps:
        steps = options.word_vector_steps
        start_token_layer_from(model, words, prepared.counts, vectors, steps=steps, seed=seed)


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


def _draw_figure(log: Sequence[Mapping[str, Any]], folder: Path) -> str | None:
    """The figure's name, or None where it cannot be drawn; the log tells why."""
    try:
        draw_curves([curve_of(log, folder.resolve().name)], folder / FIGURE)
    except (ImportError, ValueError) as error:
        logger.info("No figure of the loss in the model card: %s", error)
        return None
    return FIGURE


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


def _check_output_dir(training: TrainingArguments, config: ElmoConfig) -> None:
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


def _optimizer(
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


def _settings(options: PretrainingOptions, training: TrainingArguments, model: ElmoForPreTraining) -> dict[str, Any]:
    """What the model card tells of the optimisation."""
    head = model.lm_head
    return {
        "optimiser": str(getattr(training.optim, "value", training.optim)),
        "learning rate": f"{training.learning_rate:g}, {getattr(training.lr_scheduler_type, 'value', '')}",
        "warm-up updates": training.get_warmup_steps(training.max_steps),
        "gradient clipped at norm": training.max_grad_norm,
        **_text_settings(options, training),
        "dropout": model.config.dropout,
        "softmax while training": _softmax(model.config, head.training_softmax),
        "gradient of the softmax": "of the rows that were read" if head.sparse_gradient else "dense",
        "gradient of the loss times the unrolled words": "yes" if options.scale_loss_by_unroll_steps else "no",
        "mixed precision": "bf16" if training.bf16 else "fp16" if training.fp16 else "no",
        "seed": training.seed,
    }


def _text_settings(options: PretrainingOptions, training: TrainingArguments) -> dict[str, Any]:
    rows = training.per_device_train_batch_size
    if options.text_as == "sentences":
        return {
            "text, held-out too, read as": "whole sentences, each from the initial state",
            "words in a batch, padding and boundaries counted": f"at most {rows * options.unroll_steps:,}",
            "batches of an update": training.gradient_accumulation_steps * training.world_size,
        }
    return {
        "text, held-out too, read as": "continuous streams",
        "streams": rows * training.world_size,
        "words between updates (truncated BPTT)": options.unroll_steps,
    }


def _softmax(config: ElmoConfig, kind: str) -> str:
    if kind == "sampled":
        return f"sampled, {config.num_negative_samples:,} negatives"
    if kind == "adaptive":
        return f"adaptive, clusters from word {', '.join(f'{cutoff:,}' for cutoff in config.adaptive_cutoffs or ())} on"
    return kind


def _hardware(training: TrainingArguments) -> str:
    if training.device.type == "cuda":
        return f"{training.world_size} × {torch.cuda.get_device_name()}"
    threads = f"{torch.get_num_threads()} thread{'s' if torch.get_num_threads() > 1 else ''}"
    return f"{training.world_size} × {threads} of a CPU ({platform.processor() or platform.machine()})"


def _write(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.partial")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def main(arguments: Sequence[str]) -> int:
    """Run from the command line.

    Returns:
        The exit status: 2 where the input is at fault, 1 where training diverged or the disk is full.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        pretrain(*parse_arguments(arguments)).accelerator.end_training()
    except (FloatingPointError, CheckpointError) as error:
        print(f"hf-elmo pretrain: {error}", file=sys.stderr)
        return 1
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        # Trainer's word for what --report_to names and is not there; any other is a fault of the program.
        if isinstance(error, RuntimeError) and "to be installed" not in str(error):
            raise
        print(f"hf-elmo pretrain: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
