"""What a run leaves beside its weights: held-out perplexity, the log and its figure, the model card."""

from __future__ import annotations

import json
import logging
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments
from transformers.trainer_utils import IntervalStrategy

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.modeling_elmo import ElmoForPreTraining
from hf_elmo.new_file import write_file
from hf_elmo.pretraining.arguments import PretrainingOptions, read_mapping
from hf_elmo.pretraining.checkpoint_error import unwritten_checkpoint
from hf_elmo.pretraining.learning_curve import FIGURE, TRAINING_LOG, curve_of, draw_curves
from hf_elmo.pretraining.model_card import CARD, model_card
from hf_elmo.pretraining.shards import PreparedCorpus
from hf_elmo.pretraining.trainer import WRITING, BiLMTrainer

logger = logging.getLogger(__name__)


def write_results(
    trainer: BiLMTrainer,
    prepared: PreparedCorpus,
    options: PretrainingOptions,
    metrics: Mapping[str, Any],
    *,
    seconds: float,
    licences: Mapping[str, str],
    **kwargs: Any,
) -> None:
    """Write perplexity, log, figure and model card into the run's folder.

    Args:
        trainer, prepared, options: of the run.
        metrics: what `heldout_perplexity.json` shall hold; the card reads the perplexities.
        seconds: that training took.
        licences: by source or held-out text.
        kwargs: as in `model_card`.

    Raises:
        CheckpointError: they could not be written.
    """
    model, training = trainer.accelerator.unwrap_model(trainer.model), trainer.args
    folder = Path(str(training.output_dir))
    log = trainer.state.log_history
    with unwritten_checkpoint("the model card", folder / WRITING, last_checkpoint=trainer.last_checkpoint):
        write_file(folder / "heldout_perplexity.json", json.dumps(metrics, indent=1) + "\n")
        write_file(folder / TRAINING_LOG, json.dumps(log, indent=1) + "\n")
        card = model_card(
            model.config,
            report_for(prepared, model.config.vocab_size - 1),
            log,
            metrics,
            name=folder.resolve().name,
            seconds=seconds,
            hardware=hardware_of(training),
            words_per_update=trainer.words_per_update,
            settings={**_first_values(options, kwargs.get("adaptation")), **_settings(options, training, model)},
            text_as=options.text_as,
            licences=licences,
            model_licence=options.model_licence,
            language=options.language,
            figure=_draw_figure(log, folder),
            figure_words=0 if training.eval_strategy == IntervalStrategy.NO else options.heldout_tokens,
            **kwargs,
        )
        write_file(folder / CARD, card)


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


def _draw_figure(log: Sequence[Mapping[str, Any]], folder: Path) -> str | None:
    """The figure's name, or None where it cannot be drawn; the log tells why."""
    try:
        draw_curves([curve_of(log, folder.resolve().name)], folder / FIGURE)
    except (ImportError, ValueError) as error:
        logger.info("No figure of the loss in the model card: %s", error)
        return None
    return FIGURE


def _settings(options: PretrainingOptions, training: TrainingArguments, model: ElmoForPreTraining) -> dict[str, Any]:
    """What the model card tells of the optimisation."""
    head = model.lm_head
    return {
        "optimiser": str(getattr(training.optim, "value", training.optim)),
        "learning rate": f"{training.learning_rate:g}, {_schedule(training)}",
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


def _schedule(training: TrainingArguments) -> str:
    """Its name and options, as transformers calls them."""
    options = training.lr_scheduler_kwargs if isinstance(training.lr_scheduler_kwargs, dict) else {}
    told = [getattr(training.lr_scheduler_type, "value", ""), *(f"{name} {value}" for name, value in options.items())]
    return ", ".join(told)


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


def _first_values(options: PretrainingOptions, adaptation: str | None) -> dict[str, str]:
    """Where the weights came from; of an adapted model, a section of its own tells."""
    if adaptation is not None:
        return {}
    if options.init_from is not None:
        return {"first values": f"those of {Path(options.init_from).resolve().name}"}
    parts = ["random"]
    if options.start_at_word_frequencies:
        parts.append("the softmax's biases at the logarithms of the words' frequencies")
    if options.word_vectors is not None:
        layers = "the softmax and the token layer" if options.word_vector_steps else "the softmax"
        parts.append(f"{layers} fitted to {Path(options.word_vectors).name}")
    return {"first values": "; ".join(parts)}


def _softmax(config: ElmoConfig, kind: str) -> str:
    if kind == "sampled":
        return f"sampled, {config.num_negative_samples:,} negatives"
    if kind == "adaptive":
        return f"adaptive, clusters from word {', '.join(f'{cutoff:,}' for cutoff in config.adaptive_cutoffs or ())} on"
    return kind


def hardware_of(training: TrainingArguments) -> str:
    """What the training ran on, for a person."""
    if training.device.type == "cuda":
        return f"{training.world_size} × {torch.cuda.get_device_name()}"
    threads = f"{torch.get_num_threads()} thread{'s' if torch.get_num_threads() > 1 else ''}"
    return f"{training.world_size} × {threads} of a CPU ({platform.processor() or platform.machine()})"
