"""Tagging words: named entities, chunks, parts of speech, from files in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from transformers import DataCollatorForTokenClassification, EvalPrediction, set_seed
from transformers.trainer_utils import PredictionOutput

from hf_elmo.crf import IGNORED
from hf_elmo.new_file import write_file
from hf_elmo.tasks.baseline import BaselineForTokenClassification
from hf_elmo.tasks.conll import TaggedSentence, read_conll
from hf_elmo.tasks.data_sets import EncodedExamples, counted, drawn, held_out
from hf_elmo.tasks.heads import HeadClasses, head_on_elmo, head_without_elmo, load_tokenizer
from hf_elmo.tasks.options import TaskOptions, TaskTrainingArguments, parse_task_arguments
from hf_elmo.tasks.tag_metrics import span_metrics, span_report, tag_accuracy
from hf_elmo.tasks.tag_schemes import OUTSIDE, are_spans, with_scheme
from hf_elmo.tasks.task_run import Task, check_output_dir, exit_status, run_task
from hf_elmo.token_classification import ElmoForTokenClassification
from hf_elmo.tokenization_elmo import ElmoTokenizer

NAME = "train-ner"
DESCRIPTION = """Train a tagger of words on files in columns (CoNLL-2003, CoNLL-U, ...) and write a model that
pipeline("token-classification") loads.  Tags of spans may be IOB1, BIO, BIOES or BILOU."""
_CLASSES = HeadClasses(ElmoForTokenClassification, BaselineForTokenClassification)
_USAGE = """import hf_elmo  # makes ELMo known to transformers
from transformers import pipeline

tagger = pipeline("token-classification", "{name}"AGGREGATION)
tagger("A sentence of your own.")"""


@dataclass
class NerOptions(TaskOptions):
    """Columns and the tagger's network."""

    word_column: int | None = field(
        default=None, metadata={"help": "from 0 on (default: the first; in .conllu files FORM)"}
    )
    tag_column: int | None = field(
        default=None, metadata={"help": "from 0 on, or -1 for the last (default: the last; in .conllu files UPOS)"}
    )
    tag_scheme: Literal["bio", "bioes"] = field(
        default="bio", metadata={"help": "in which tags of spans are learnt; pipelines join the words of bio only"}
    )
    encoder: Literal["linear", "bilstm"] = field(
        default="bilstm",
        metadata={"help": "linear: ELMo and a linear layer; bilstm: the paper's biLSTM layers between"},
    )
    classifier_num_layers: int = field(default=1, metadata={"help": "with bilstm: how many biLSTM layers"})
    use_crf: bool = field(default=False, metadata={"help": "score whole sequences of tags by a CRF"})

    def check(self) -> None:
        """As in the base class."""
        super().check()
        if self.classifier_num_layers < 1:
            raise ValueError(
                f"classifier_num_layers: got {self.classifier_num_layers}; expected at least 1 (0: --encoder linear)."
            )

    def head_options(self) -> dict[str, Any]:
        """As in the base class."""
        return super().head_options() | ({"classifier_num_layers": 0} if self.encoder == "linear" else {})


def main(arguments: Sequence[str]) -> int:
    """Run from the command line; returns the exit status."""
    return exit_status(lambda: train_ner(arguments), prog=f"hf-elmo {NAME}")


def train_ner(arguments: Sequence[str]) -> dict[str, float]:
    """Train by the command's arguments; returns the metrics.

    Raises:
        OSError, ValueError: a file or an option is not as it should be.
        ImportError: an extra is missing.
    """
    options, training, changes = parse_task_arguments(
        NerOptions, arguments, prog=f"hf-elmo {NAME}", description=DESCRIPTION
    )
    check_output_dir(training)
    set_seed(training.seed)
    return run_task(_task(options, training, changes), options, training, arguments)


def _task(options: NerOptions, training: TaskTrainingArguments, changes: dict[str, Any]) -> Task:
    train, validation, test = _read(options, training)
    everything = [*train, *validation, *(test or [])]
    has_spans = are_spans(tag for sentence in everything for tag in sentence.tags)
    if has_spans:
        train, validation = _rewritten(train, options), _rewritten(validation, options)
        test = None if test is None else _rewritten(test, options)
    labels = _labels(train, options)
    tokenizer = load_tokenizer(options)
    if options.no_elmo:
        model = head_without_elmo(
            _CLASSES,
            options,
            changes,
            labels,
            training_words=counted(sentence.words for sentence in train),
            other_words=set(counted(sentence.words for sentence in [*validation, *(test or [])])),
            max_characters_per_word=tokenizer.max_characters_per_word,
        )
    else:
        model = head_on_elmo(_CLASSES, options, changes, labels)
    encode = _Encode(tokenizer, labels)

    def tags_of(data: EncodedExamples[TaggedSentence], output: Any) -> tuple[list[list[str]], list[list[str]]]:
        return [sentence.tags for sentence in data.examples], _predicted(output.predictions, data, labels)

    def metrics(data: EncodedExamples[TaggedSentence], output: EvalPrediction) -> dict[str, float]:
        return (span_metrics if has_spans else tag_accuracy)(*tags_of(data, output))

    def write_predictions(folder: Path, data: EncodedExamples[TaggedSentence], output: PredictionOutput) -> None:
        lines = []
        for sentence, guesses in zip(data.examples, tags_of(data, output)[1], strict=True):
            lines += ["\t".join(row) for row in zip(sentence.words, sentence.tags, guesses, strict=True)] + [""]
        write_file(folder / "test_predictions.conll", "\n".join(lines) + "\n")

    def report(data: EncodedExamples[TaggedSentence], output: PredictionOutput) -> str | None:
        return span_report(*tags_of(data, output)) if has_spans else None

    metrics_need(has_spans)
    sets = {"training": train, "validation": validation, "test": test}
    aggregation = ', aggregation_strategy="simple"' if has_spans and options.tag_scheme == "bio" else ""
    return Task(
        name=NAME,
        title="token classification",
        pipeline_tag="token-classification",
        model=model,
        tokenizer=tokenizer,
        train=EncodedExamples(train, encode),
        validation=EncodedExamples(validation, encode),
        test=None if test is None else EncodedExamples(test, encode),
        collator=DataCollatorForTokenClassification(tokenizer, label_pad_token_id=IGNORED),
        metrics=metrics,
        best_metric="f1" if has_spans else "accuracy",
        usage=_USAGE.replace("AGGREGATION", aggregation),
        summary=[
            (f"{name} sentences", f"{len(data):,} with {sum(len(sentence.words) for sentence in data):,} words")
            for name, data in sets.items()
            if data is not None
        ],
        write_predictions=write_predictions,
        settings=("elmo_dropout", "classifier_num_layers", "classifier_lstm_size", "classifier_dropout", "use_crf"),
        # Of a CRF the best sequence is in `predictions`, the best tag of each word alone in `logits`.
        ignored_outputs=["hidden_states", "logits"],
        report=report,
    )


def metrics_need(has_spans: bool) -> None:
    """Raises ImportError before a long training, not after it, where seqeval is needed and not there."""
    if has_spans:
        span_metrics([[OUTSIDE]], [[OUTSIDE]])


def _read(
    options: NerOptions, training: TaskTrainingArguments
) -> tuple[list[TaggedSentence], list[TaggedSentence], list[TaggedSentence] | None]:
    def read(path: str) -> list[TaggedSentence]:
        return read_conll(path, word_column=options.word_column, tag_column=options.tag_column)

    train = read(options.train_file)
    test = None if options.test_file is None else read(options.test_file)
    if options.validation_file is None:
        train, validation = held_out(train, seed=training.seed)
    else:
        validation = read(options.validation_file)
    seed = training.seed if training.data_seed is None else training.data_seed
    return drawn(train, options.train_share, seed=seed), validation, test


def _rewritten(sentences: list[TaggedSentence], options: NerOptions) -> list[TaggedSentence]:
    return [TaggedSentence(words, with_scheme(tags, options.tag_scheme)) for words, tags in sentences]


def _labels(train: list[TaggedSentence], options: NerOptions) -> list[str]:
    """The training data's tags, `O` first.

    Raises:
        ValueError: one only.
    """
    labels = sorted({tag for sentence in train for tag in sentence.tags}, key=lambda tag: (tag != OUTSIDE, tag))
    if len(labels) < 2:
        raise ValueError(
            f"{options.train_file}: got the tag {labels[0]!r} only, in column "
            f"{'of the tags' if options.tag_column is None else options.tag_column}; expected two or more; set "
            "--tag_column."
        )
    return labels


class _Encode:
    """A sentence to word ids, character ids and the numbers of its tags; -100 for one that training has not."""

    def __init__(self, tokenizer: ElmoTokenizer, labels: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._numbers = {label: number for number, label in enumerate(labels)}

    def __call__(self, sentence: TaggedSentence) -> dict[str, Any]:
        encoded = dict(self._tokenizer(sentence.words, is_split_into_words=True))
        encoded["labels"] = [IGNORED, *(self._numbers.get(tag, IGNORED) for tag in sentence.tags), IGNORED]
        return encoded


def _predicted(
    predictions: NDArray[np.int64], data: EncodedExamples[TaggedSentence], labels: Sequence[str]
) -> list[list[str]]:
    """The names of the best tags, sentence by sentence.

    Shape:
        predictions (B, T), with -100 at boundaries and padding
    """
    found = [[labels[number] for number in row if number != IGNORED] for row in predictions.tolist()]
    for sentence, tags in zip(data.examples, found, strict=True):
        assert len(tags) == len(sentence.words)
    return found
