"""Going on with a trained biLM on text of a domain: from a model and a corpus to a model folder."""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import nn
from transformers import TrainerCallback, TrainingArguments, set_seed

from hf_elmo.modeling_elmo import ElmoForPreTraining
from hf_elmo.perplexity import Perplexity, perplexity
from hf_elmo.pretraining.adapt_options import AdaptArguments, AdaptOptions, parse_adapt_arguments
from hf_elmo.pretraining.adaptation_report import AdaptationReport
from hf_elmo.pretraining.adaptation_text import open_text
from hf_elmo.pretraining.checkpoint_error import CheckpointError
from hf_elmo.pretraining.corpus_with_vocabulary import with_vocabulary
from hf_elmo.pretraining.head_warm_up import HeadWarmUp
from hf_elmo.pretraining.run_results import read_licences, write_results
from hf_elmo.pretraining.shards import HELDOUT_PREFIX, TRAIN, PreparedCorpus
from hf_elmo.pretraining.softmax_start import start_at_word_frequencies
from hf_elmo.pretraining.source_model import SourceModel, load_source_model
from hf_elmo.pretraining.trainer import BiLMTrainer, model_inputs
from hf_elmo.pretraining.training_run import (
    check_output_dir,
    evaluate_whole_texts,
    heldout_passes,
    make_trainer,
    train,
)
from hf_elmo.pretraining.vocabulary_transfer import transfer_head
from hf_elmo.pretraining.warm_state_run import finish_with_warm_state, store_warm_state_only
from hf_elmo.tokenization_elmo import ElmoTokenizer

logger = logging.getLogger(__name__)


def adapt(arguments: AdaptArguments) -> AdaptationReport | None:
    """Train, and write to `training.output_dir` what `pretrain` does; held-out text is measured before and after.

    Goes on from `training.resume_from_checkpoint` ("true" for the last checkpoint of the output folder).  With
    `training.max_steps` 0 nothing is trained, only a warm state stored, and None returned.  A model with a warm state
    gets a new one in any case, since the old one belongs to other weights.

    Raises:
        OSError, ValueError: model, text or an option is not as it should be.
        FloatingPointError: training diverged.
    """
    options, training = arguments.options, arguments.training
    _check_free(training)
    source = load_source_model(arguments.model, **arguments.changes)
    new_vocabulary = _wants_new_vocabulary(options, source)
    prepared = open_text(
        arguments.corpus,
        options,
        arguments.text,
        training,
        new_vocabulary=new_vocabulary,
        max_characters_per_word=source.model.config.max_characters_per_word,
    )
    if not prepared.heldout_splits and training.process_index == 0:
        logger.info(
            "No text is held out, so that no perplexity can be had; --heldout or --heldout-share hold out raw text, "
            "here and in `hf-elmo prepare`."
        )
    if training.max_steps == 0:
        store_warm_state_only(source, prepared, options, training)
        return None
    corpus = with_vocabulary(prepared, prepared.vocabulary(options.vocab_size) if new_vocabulary else source.vocabulary)
    licences = read_licences(options, corpus)
    set_seed(training.seed)
    model, tokenizer, head = _start(source, corpus, keeps_vocabulary=not new_vocabulary)
    check_output_dir(training, model.config)
    callbacks: list[TrainerCallback] = []
    if options.head_warm_up_steps:
        callbacks.append(HeadWarmUp(model, options.head_warm_up_steps))
        head += f"; the first {options.head_warm_up_steps:,} updates train it alone"
        if training.world_size > 1:
            training.ddp_find_unused_parameters = True  # those of the biLM, while it waits
    if training.process_index == 0:
        logger.info("%s: the softmax is %s.", source.shown_name, head)
    trainer = make_trainer(model, tokenizer, corpus, options, training, callbacks=callbacks)
    report = _measure_before(source, head, prepared, corpus, trainer, options)
    train(trainer, corpus)
    _finish(trainer, source, corpus, options, report, licences)
    trainer.accelerator.end_training()
    return report


def _check_free(training: TrainingArguments) -> None:
    """A model that is there already is not written over."""
    folder = Path(str(training.output_dir))
    if (folder / "config.json").is_file() and not training.resume_from_checkpoint:
        raise ValueError(
            f"output_dir: got {str(folder)!r}, which holds a model; expected a new folder, or --resume_from_checkpoint "
            "true to go on with the run that made it."
        )


def _wants_new_vocabulary(options: AdaptOptions, source: SourceModel) -> bool:
    if options.vocabulary == "keep" and not source.has_vocabulary:
        raise ValueError(
            f"vocabulary: got keep for {source.name}, which has no vocabulary; expected --vocabulary new, or a model "
            "converted with its --vocab file."
        )
    new_vocabulary = options.vocabulary == "new" or (options.vocabulary is None and not source.has_head)
    if options.vocab_size is not None and not new_vocabulary:
        raise ValueError(
            f"vocab_size: got {options.vocab_size}, but {source.name} keeps its vocabulary; leave it out, or add "
            "--vocabulary new."
        )
    return new_vocabulary


def _start(
    source: SourceModel, corpus: PreparedCorpus, *, keeps_vocabulary: bool
) -> tuple[ElmoForPreTraining, ElmoTokenizer, str]:
    """The model before its first update, its tokenizer, and in a few words where its softmax comes from."""
    vocabulary = corpus.vocabulary()
    words = f"{len(vocabulary):,} words"
    if keeps_vocabulary and source.has_head:
        return source.model, source.tokenizer, f"kept, over its {words}"
    config = copy.deepcopy(source.model.config)
    if config.lm_softmax == "adaptive":
        raise ValueError(
            f"{source.shown_name}: got a new softmax to make of an adaptive one, whose clusters belong to its "
            "vocabulary; expected --vocabulary keep."
        )
    config.vocab_size = len(vocabulary) + 1
    model = ElmoForPreTraining(config)
    model.elmo.load_state_dict(source.model.elmo.state_dict())
    if keeps_vocabulary:
        tokenizer = source.tokenizer
    else:
        tokenizer = ElmoTokenizer(vocab=vocabulary, max_characters_per_word=config.max_characters_per_word)
    if source.has_head:
        shared = transfer_head(source.model.lm_head, source.vocabulary, model.lm_head, vocabulary, corpus.counts)
        others = len(vocabulary) - shared
        head = f"carried over to {words}: {shared:,} keep their rows, {others:,} new ones share that of <UNK>"
    else:
        # Without weights it predicts the frequencies exactly, and nothing random reaches the biLM.
        nn.init.zeros_(model.lm_head.weight)
        start_at_word_frequencies(model.lm_head, corpus.counts, corpus.split_report(TRAIN)["sentences"])
        head = f"new, over {words} and started at their frequencies, since the model came without one"
    return model, tokenizer, head


def _measure_before(
    source: SourceModel,
    head: str,
    prepared: PreparedCorpus,
    corpus: PreparedCorpus,
    trainer: BiLMTrainer,
    options: AdaptOptions,
) -> AdaptationReport:
    """The report, with what can be said before the first update."""
    training = trainer.args
    model = trainer.accelerator.unwrap_model(trainer.model)
    report = AdaptationReport(
        model=source.shown_name,
        keeps_vocabulary=corpus.vocabulary() == source.vocabulary,
        head=head,
        corpus=corpus,
        num_streams=training.per_device_eval_batch_size,
        start=_perplexities(model, corpus, options, training),
    )
    if source.has_head:
        own = with_vocabulary(prepared, source.vocabulary)
        report.before_unknown = {name: own.split_report(HELDOUT_PREFIX + name)["oov_rate"] for name in report.start}
        if report.keeps_vocabulary:
            report.before = report.start
        else:
            nn.Module.to(source.model, training.device)
            report.before = _perplexities(source.model, own, options, training)
            nn.Module.to(source.model, "cpu")
    return report


def _perplexities(
    model: ElmoForPreTraining, corpus: PreparedCorpus, options: AdaptOptions, training: TrainingArguments
) -> dict[str, Perplexity]:
    """Of all of every held-out text, read as after training."""
    passes = heldout_passes(corpus, model.config, options, training, num_tokens=0)
    return {name: perplexity(model, map(model_inputs, begin())) for name, begin in passes.items()}


def _finish(
    trainer: BiLMTrainer,
    source: SourceModel,
    corpus: PreparedCorpus,
    options: AdaptOptions,
    report: AdaptationReport,
    licences: dict[str, str],
) -> None:
    """Measure, store a warm state where one is wanted, and write what pretraining writes."""
    seconds = trainer.training_seconds
    metrics: dict[str, Any] = dict(evaluate_whole_texts(trainer, corpus, options))
    report.after = {name: _from_metrics(metrics, name, corpus) for name in report.start}
    had_warm_state = source.model.config.initial_state == "warm"
    if options.store_warm_state or had_warm_state:
        report.by_state = finish_with_warm_state(trainer, corpus, options)
    if not trainer.is_world_process_zero():
        return
    write_results(
        trainer,
        corpus,
        options,
        {**metrics, "adaptation": report.json()},
        seconds=seconds,
        licences=licences,
        adaptation=report.section(),
        base_model=source.hub_id,
    )
    report.show(Console())


def _from_metrics(metrics: dict[str, Any], name: str, corpus: PreparedCorpus) -> Perplexity:
    average, forward, backward = (metrics[f"eval_{name}_{kind}perplexity"] for kind in ("", "forward_", "backward_"))
    return Perplexity(
        forward, backward, average, corpus.split_report(HELDOUT_PREFIX + name)["predictions_per_direction"]
    )


def main(arguments: Sequence[str]) -> int:
    """Run from the command line.

    Returns:
        The exit status: 2 where the input is at fault, 1 where training diverged or the disk is full.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        adapt(parse_adapt_arguments(arguments))
    except (FloatingPointError, CheckpointError) as error:
        print(f"hf-elmo adapt: {error}", file=sys.stderr)
        return 1
    except (OSError, ValueError, ImportError) as error:
        print(f"hf-elmo adapt: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
