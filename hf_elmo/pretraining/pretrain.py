"""One pretraining run: from a recipe and a prepared corpus to a model folder."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Any

from transformers import TrainingArguments, set_seed

from hf_elmo.modeling_elmo import ElmoForPreTraining
from hf_elmo.pretraining.arguments import PretrainingOptions, model_config, parse_arguments
from hf_elmo.pretraining.checkpoint_error import CheckpointError
from hf_elmo.pretraining.init_from import Start
from hf_elmo.pretraining.run_results import read_licences, write_results
from hf_elmo.pretraining.shards import PreparedCorpus
from hf_elmo.pretraining.softmax_start import start_at_word_frequencies
from hf_elmo.pretraining.trainer import BiLMTrainer
from hf_elmo.pretraining.training_run import check_output_dir, evaluate_whole_texts, make_trainer, train
from hf_elmo.pretraining.word_vector_start import read_word_vectors, start_softmax_from, start_token_layer_from
from hf_elmo.tokenization_elmo import ElmoTokenizer


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
    check_output_dir(training, config)
    set_seed(training.seed)
    model = ElmoForPreTraining(config) if start is None else start.load_model()
    if options.start_at_word_frequencies and start is None:
        start_at_word_frequencies(model.lm_head, prepared.counts, prepared.split_report("train")["sentences"])
    if options.word_vectors is not None and not training.resume_from_checkpoint:
        _start_from_word_vectors(model, prepared, options, seed=training.seed)
    tokenizer = ElmoTokenizer(vocab=vocabulary, max_characters_per_word=config.max_characters_per_word)
    sums = None if start is None else start.adagrad_sums(model)
    trainer = make_trainer(model, tokenizer, prepared, options, training, adagrad_sums=sums)
    train(trainer, prepared)
    seconds = trainer.training_seconds
    metrics = evaluate_whole_texts(trainer, prepared, options)
    if trainer.is_world_process_zero():
        write_results(trainer, prepared, options, metrics, seconds=seconds, licences=licences)
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
