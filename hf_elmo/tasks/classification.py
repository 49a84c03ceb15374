"""Classifying sentences and pairs of sentences: sentiment, topics, entailment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from transformers import DataCollatorWithPadding, EvalPrediction, set_seed
from transformers.trainer_utils import PredictionOutput

from hf_elmo.new_file import write_file
from hf_elmo.sequence_classification import ElmoForSequenceClassification
from hf_elmo.tasks.baseline import BaselineForSequenceClassification
from hf_elmo.tasks.data_sets import EncodedExamples, counted, drawn, held_out
from hf_elmo.tasks.heads import HeadClasses, head_on_elmo, head_without_elmo, load_tokenizer
from hf_elmo.tasks.labelled_texts import FORMATS, LabelledText, read_labelled_texts
from hf_elmo.tasks.numbered_lines import suffix_of
from hf_elmo.tasks.options import TaskOptions, TaskTrainingArguments, parse_task_arguments
from hf_elmo.tasks.sentiment_trees import read_trees
from hf_elmo.tasks.task_run import Task, check_output_dir, exit_status, run_task
from hf_elmo.tokenization_elmo import ElmoTokenizer

NAME = "train-classifier"
DESCRIPTION = """Train a classifier of sentences or of pairs on CSV, TSV, JSON lines or sentiment trees, and write a
model that pipeline("text-classification") loads."""
_CLASSES = HeadClasses(ElmoForSequenceClassification, BaselineForSequenceClassification)
_USAGE = """import hf_elmo  # makes ELMo known to transformers
from transformers import pipeline

classify = pipeline("text-classification", "{name}")
classify(INPUT)"""
_TREE_SUFFIXES = ("txt", "ptb", "trees")


@dataclass
class ClassificationOptions(TaskOptions):
    """Columns and the classifier's network."""

    file_format: Literal["auto", "csv", "tsv", "jsonl", "trees"] = field(
        default="auto", metadata={"help": "auto: by the file's name; .txt is a sentiment tree a line"}
    )
    text_column: str = field(default="text", metadata={"help": "name of the column, or the key, of the text"})
    text_pair_column: str | None = field(
        default=None, metadata={"help": "name of the second text's, where pairs are classified"}
    )
    label_column: str = field(default="label", metadata={"help": "name of the class's"})
    is_split_into_words: bool = field(default=False, metadata={"help": "the texts are words with spaces between"})
    num_classes: Literal[2, 5] = field(default=5, metadata={"help": "of sentiment trees; 2 leaves out what is neutral"})
    phrases: bool = field(
        default=False, metadata={"help": "of sentiment trees: train on the phrases within sentences too"}
    )
    encoder: Literal["linear", "bilstm", "biattention"] = field(
        default="bilstm",
        metadata={"help": "linear: pool ELMo; bilstm: pool biLSTM layers; biattention: the paper's network"},
    )
    pooling: Literal["mean", "max"] = field(default="max", metadata={"help": "of the words, with linear and bilstm"})
    classifier_num_layers: int = field(default=1, metadata={"help": "with bilstm: how many biLSTM layers"})
    classifier_lstm_size: int = field(default=100, metadata={"help": "width of each direction of the network's RNNs"})

    def check(self) -> None:
        """As in the base class."""
        super().check()
        if self.classifier_num_layers < 1:
            raise ValueError(
                f"classifier_num_layers: got {self.classifier_num_layers}; expected at least 1 (0: --encoder linear)."
            )

    def head_options(self) -> dict[str, Any]:
        """As in the base class."""
        options = super().head_options() | {"sentence_pairs": self.text_pair_column is not None}
        options["classifier_num_layers"] = self.classifier_num_layers if self.encoder == "bilstm" else 0
        if self.encoder == "biattention":
            options["pooling"] = "biattention"
        return options | {"problem_type": "single_label_classification"}


def main(arguments: Sequence[str]) -> int:
    """Run from the command line; returns the exit status."""
    return exit_status(lambda: train_classifier(arguments), prog=f"hf-elmo {NAME}")


def train_classifier(arguments: Sequence[str]) -> dict[str, float]:
    """Train by the command's arguments; returns the metrics.

    Raises:
        OSError, ValueError: a file or an option is not as it should be.
        ImportError: an extra is missing.
    """
    options, training, changes = parse_task_arguments(
        ClassificationOptions, arguments, prog=f"hf-elmo {NAME}", description=DESCRIPTION
    )
    check_output_dir(training)
    set_seed(training.seed)
    return run_task(_task(options, training, changes), options, training, arguments)


def classification_metrics(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> dict[str, float]:
    """`accuracy` and `macro_f1`, the mean of the classes' F1, each from 0 to 1.

    Raises:
        ImportError: scikit-learn is not installed.
    """
    metrics = _sklearn()
    return {
        "accuracy": float(metrics.accuracy_score(gold, predicted)),
        "macro_f1": float(metrics.f1_score(gold, predicted, labels=labels, average="macro", zero_division=0)),
    }


def read_classified(path: str, options: ClassificationOptions, *, phrases: bool = False) -> list[LabelledText]:
    """A file in the format that the options, or its name, say.

    Raises:
        FileNotFoundError, ValueError: as `read_trees` and `read_labelled_texts`; an ending that says nothing.
    """
    kind = suffix_of(path).removeprefix(".") if options.file_format == "auto" else options.file_format
    if kind in ("trees", *_TREE_SUFFIXES):
        return read_trees(path, num_classes=options.num_classes, phrases=phrases)
    if kind not in FORMATS:
        raise ValueError(f"{path}: got a name that ends in {kind!r}; expected --file_format to say what it holds.")
    return read_labelled_texts(
        path,
        text_column=options.text_column,
        pair_column=options.text_pair_column,
        label_column=options.label_column,
        split_at_spaces=options.is_split_into_words,
        file_format=kind,
    )


def _task(options: ClassificationOptions, training: TaskTrainingArguments, changes: dict[str, Any]) -> Task:
    train, validation, test = _read(options, training)
    labels = sorted({example.label for example in train}, key=_by_number)
    _check_labels(labels, options, {"validation_file": validation, "test_file": test or []})
    tokenizer = load_tokenizer(options)
    if options.no_elmo:
        model = head_without_elmo(
            _CLASSES,
            options,
            changes,
            labels,
            training_words=counted(_words(train, tokenizer)),
            other_words=set(counted(_words([*validation, *(test or [])], tokenizer))),
            max_characters_per_word=tokenizer.max_characters_per_word,
        )
    else:
        model = head_on_elmo(_CLASSES, options, changes, labels)
    encode = _Encode(tokenizer, labels)
    _sklearn()  # where it is missing, that is said before the training

    def labels_of(data: EncodedExamples[LabelledText], output: Any) -> tuple[list[str], list[str]]:
        return [example.label for example in data.examples], _predicted(output.predictions, labels)

    def metrics(data: EncodedExamples[LabelledText], output: EvalPrediction) -> dict[str, float]:
        return classification_metrics(*labels_of(data, output), labels)

    def write_predictions(folder: Path, data: EncodedExamples[LabelledText], output: PredictionOutput) -> None:
        rows = zip(*labels_of(data, output), strict=True)
        lines = ["gold\tpredicted", *("\t".join(row) for row in rows)]
        write_file(folder / "test_predictions.tsv", "\n".join(lines) + "\n")

    def report(data: EncodedExamples[LabelledText], output: PredictionOutput) -> str:
        gold, predicted = labels_of(data, output)
        table: str = _sklearn().classification_report(gold, predicted, labels=labels, digits=4, zero_division=0)
        return table

    sets = {"training": train, "validation": validation, "test": test}
    shown = '{{"text": "A sentence .", "text_pair": "Another ."}}' if options.text_pair_column else '"A sentence ."'
    return Task(
        name=NAME,
        title="text classification",
        pipeline_tag="text-classification",
        model=model,
        tokenizer=tokenizer,
        train=EncodedExamples(train, encode),
        validation=EncodedExamples(validation, encode),
        test=None if test is None else EncodedExamples(test, encode),
        collator=DataCollatorWithPadding(tokenizer),
        metrics=metrics,
        best_metric="accuracy",
        usage=_USAGE.replace("INPUT", shown),
        summary=[
            *((f"{name} examples", f"{len(data):,}") for name, data in sets.items() if data is not None),
            ("classes", ", ".join(f"`{label}`" for label in labels)),
        ],
        write_predictions=write_predictions,
        settings=("elmo_dropout", "pooling", "classifier_num_layers", "classifier_lstm_size", "classifier_dropout"),
        report=report,
    )


def _read(
    options: ClassificationOptions, training: TaskTrainingArguments
) -> tuple[list[LabelledText], list[LabelledText], list[LabelledText] | None]:
    if options.phrases and (options.train_share < 1 or options.validation_file is None):
        raise ValueError(
            "phrases: got it without a validation_file or with a train_share, where phrases of one sentence would be "
            "held out of another's; expected a validation_file and the whole train_file."
        )
    train = read_classified(options.train_file, options, phrases=options.phrases)
    test = None if options.test_file is None else read_classified(options.test_file, options)
    if options.validation_file is None:
        train, validation = held_out(train, seed=training.seed)
    else:
        validation = read_classified(options.validation_file, options)
    seed = training.seed if training.data_seed is None else training.data_seed
    return drawn(train, options.train_share, seed=seed), validation, test


def _check_labels(labels: Sequence[str], options: ClassificationOptions, others: dict[str, list[LabelledText]]) -> None:
    if len(labels) < 2:
        raise ValueError(f"{options.train_file}: got the class {labels[0]!r} only; expected two or more.")
    for name, examples in others.items():
        unknown = next((example.label for example in examples if example.label not in labels), None)
        if unknown is not None:
            raise ValueError(
                f"{name}: got the class {unknown!r}; expected those of the training data: {', '.join(labels)[:200]}."
            )


def _by_number(label: str) -> tuple[bool, int, str]:
    return (not label.isdecimal(), int(label) if label.isdecimal() else 0, label)


def _words(examples: Iterable[LabelledText], tokenizer: ElmoTokenizer) -> Iterable[list[str]]:
    for example in examples:
        for text in (example.text, example.pair):
            if text is not None:
                yield tokenizer.split_into_words(text) if isinstance(text, str) else text


class _Encode:
    """A text or a pair to word ids, character ids and the number of its class."""

    def __init__(self, tokenizer: ElmoTokenizer, labels: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._numbers = {label: number for number, label in enumerate(labels)}

    def __call__(self, example: LabelledText) -> dict[str, Any]:
        split = not isinstance(example.text, str)
        encoded = dict(self._tokenizer(example.text, example.pair, is_split_into_words=split))
        return encoded | {"labels": self._numbers[example.label]}


def _predicted(logits: NDArray[np.floating], labels: Sequence[str]) -> list[str]:
    """Shape: logits (B, K)."""
    return [labels[number] for number in logits.argmax(axis=-1).tolist()]


def _sklearn():  # type: ignore[no-untyped-def]
    try:
        import sklearn.metrics
    except ImportError as error:
        raise ImportError('the metrics need scikit-learn: pip install "spacy-elmo[train]"') from error
    return sklearn.metrics
