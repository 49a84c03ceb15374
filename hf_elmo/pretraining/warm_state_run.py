"""Storing a warm state at the end of an adaptation, or instead of one."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from torch import nn
from transformers import TrainingArguments

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.model_source import load_model
from hf_elmo.modeling_elmo import ElmoForPreTraining, ElmoPreTrainedModel
from hf_elmo.new_file import new_file, write_file
from hf_elmo.pretraining.adapt_options import AdaptOptions
from hf_elmo.pretraining.batches import Batch
from hf_elmo.pretraining.corpus_with_vocabulary import with_vocabulary
from hf_elmo.pretraining.first_sentences import first_sentences
from hf_elmo.pretraining.learning_curve import FIGURE, TRAINING_LOG
from hf_elmo.pretraining.model_card import CARD, carried_card
from hf_elmo.pretraining.perplexity_by_state import STATES
from hf_elmo.pretraining.perplexity_report import TextPerplexity, as_json, conventions, in_markdown, measure, table
from hf_elmo.pretraining.shards import TRAIN, PreparedCorpus
from hf_elmo.pretraining.source_model import SourceModel
from hf_elmo.pretraining.streams import HeldoutStreams
from hf_elmo.pretraining.trainer import BiLMTrainer
from hf_elmo.pretraining.warm_state import store_warm_state
from hf_elmo.tokenization_elmo import ElmoTokenizer

logger = logging.getLogger(__name__)

# So that nearly every sentence that is read follows another one.
_SENTENCES_A_STREAM = 10


def training_streams(
    corpus: PreparedCorpus, config: ElmoConfig, options: AdaptOptions, training: TrainingArguments
) -> Iterable[Batch]:
    """One pass over the first `warm_state_tokens` words of the training text, in parallel streams."""
    part = first_sentences(corpus, TRAIN, options.warm_state_tokens or None)
    sentences = part.split_report(TRAIN)["sentences"]
    return HeldoutStreams(
        part,
        TRAIN,
        batch_size=max(1, min(training.per_device_eval_batch_size, sentences // _SENTENCES_A_STREAM)),
        unroll_steps=options.unroll_steps,
        max_characters_per_word=config.max_characters_per_word,
    )


def finish_with_warm_state(trainer: BiLMTrainer, corpus: PreparedCorpus, options: AdaptOptions) -> list[TextPerplexity]:
    """Store a warm state in the trained model, save it once more, and measure what the state is worth.

    Returns:
        the perplexities by state of the first `heldout_tokens` words of every held-out text.
    """
    model = trainer.accelerator.unwrap_model(trainer.model)
    store_warm_state(model, training_streams(corpus, model.config, options, trainer.args))
    trainer.save_result()
    return _measure_states(model, corpus, options, trainer.args)


def store_warm_state_only(
    source: SourceModel, prepared: PreparedCorpus, options: AdaptOptions, training: TrainingArguments
) -> None:
    """Write the model with a warm state to `output_dir`, all other weights as they are; with its softmax if it has one.

    Its model card, figure and log go with it, where it has them.

    Raises:
        OSError, ValueError: see `store_warm_state`.
    """
    model = source.model if source.has_head else load_model(source.name)
    nn.Module.to(model, training.device)
    store_warm_state(model, training_streams(prepared, model.config, options, training))
    if training.process_index > 0:
        return
    folder = Path(str(training.output_dir))
    _save(model, source.tokenizer, folder)
    about = _about_warm_state(source, prepared, options)
    _carry_card(source, folder, about)
    logger.info("%s: stored a warm state; written to %s", source.shown_name, folder)
    if not source.has_head:
        logger.info("%s has no softmax, so that no perplexity can be had.", source.shown_name)
    elif prepared.heldout_splits:
        corpus = with_vocabulary(prepared, source.vocabulary)
        measured = _measure_states(source.model, corpus, options, training)
        explanation = conventions(
            measured, vocab_size=corpus.vocab_size, num_streams=training.per_device_eval_batch_size
        )
        figures = {"initial_states": {"conventions": explanation, "texts": as_json(measured)}}
        write_file(folder / "heldout_perplexity.json", json.dumps(figures, indent=1) + "\n")
        worth = ["What that is worth on held-out text:", *in_markdown(measured, explanation)]
        _carry_card(source, folder, "\n\n".join([about, *worth]))
        console = Console()
        console.print(table(measured))
        console.print(explanation, highlight=False, markup=False)


def _about_warm_state(source: SourceModel, prepared: PreparedCorpus, options: AdaptOptions) -> str:
    """A section of the model card."""
    part = first_sentences(prepared, TRAIN, options.warm_state_tokens or None).split_report(TRAIN)
    return (
        f"## Warm state\n\nThe weights are those of {source.shown_name}, without a further update. New is a warm "
        f"state: the mean of those in which the LSTMs begin sentences, over the first {part['tokens']:,} words of the "
        f'training text ({", ".join(part["sources"])}). Every sentence begins there (`initial_state="warm"`).'
    )


def _carry_card(source: SourceModel, folder: Path, about: str) -> None:
    """The source's model card with a section about the result, and its figure and log, as far as it has them."""
    for name in (FIGURE, TRAINING_LOG):
        if (file := source.file(name)) is not None:
            with new_file(folder / name) as beside:
                shutil.copyfile(file, beside)
    if (file := source.file(CARD)) is not None:
        card = file.read_text(encoding="utf-8")
        name = folder.resolve().name
        write_file(folder / CARD, carried_card(card, name, old_name=source.hub_id, section=about))


def _measure_states(
    model: ElmoForPreTraining, corpus: PreparedCorpus, options: AdaptOptions, training: TrainingArguments
) -> list[TextPerplexity]:
    if training.process_index > 0:
        return []
    return measure(
        model,
        corpus,
        corpus.heldout_splits,
        states=STATES,
        num_words=options.heldout_tokens or None,
        num_streams=training.per_device_eval_batch_size,
    )


def _save(model: ElmoPreTrainedModel, tokenizer: ElmoTokenizer, folder: Path) -> None:
    """Model and tokenizer into a folder that may hold the prepared text, file by file when all are written."""
    beside = folder / ".writing"
    shutil.rmtree(beside, ignore_errors=True)
    model.save_pretrained(beside)
    tokenizer.save_pretrained(beside)
    for file in sorted(beside.iterdir()):
        os.replace(file, folder / file.name)
    beside.rmdir()
