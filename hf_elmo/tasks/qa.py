"""Answering questions with a stretch of a context: SQuAD 1.1."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import DataCollatorWithPadding, EvalPrediction, set_seed
from transformers.trainer_utils import PredictionOutput

from hf_elmo.new_file import write_file
from hf_elmo.question_answering import ElmoForQuestionAnswering
from hf_elmo.tasks.answer_spans import best_span, words_of_answer
from hf_elmo.tasks.baseline import BaselineForQuestionAnswering
from hf_elmo.tasks.data_sets import EncodedExamples, counted, drawn, held_out
from hf_elmo.tasks.heads import HeadClasses, head_on_elmo, head_without_elmo, load_tokenizer
from hf_elmo.tasks.options import TaskOptions, TaskTrainingArguments, parse_task_arguments
from hf_elmo.tasks.squad import Question, read_squad
from hf_elmo.tasks.squad_metrics import squad_metrics
from hf_elmo.tasks.task_run import Task, check_output_dir, exit_status, run_task
from hf_elmo.tokenization_elmo import ElmoTokenizer

NAME = "train-qa"
DESCRIPTION = """Train question answering on SQuAD 1.1's JSON: the paper's network of bidirectional attention and
self-attention.  Measured by SQuAD's exact match and F1."""
_CLASSES = HeadClasses(ElmoForQuestionAnswering, BaselineForQuestionAnswering)
_USAGE = """import torch
import hf_elmo  # makes ELMo known to transformers
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}")
model = AutoModelForQuestionAnswering.from_pretrained("{name}")
question, context = "Who barked?", "The dog let out a sharp bark."
words = tokenizer(question, context, return_offsets_mapping=True, return_tensors="pt")
offsets = words.pop("offset_mapping")[0]
with torch.no_grad():
    scores = model(**words)
start, end = scores.start_logits.argmax(), scores.end_logits.argmax()
print(context[offsets[start][0] : offsets[end][1]])"""


@dataclass
class QaOptions(TaskOptions):
    """Lengths, and the network's sizes as in the paper."""

    max_context_words: int = field(
        default=300,
        metadata={"help": "while training contexts are cut there, and answers beyond are left out; 0: never"},
    )
    max_answer_words: int = field(default=17, metadata={"help": "of a predicted answer"})
    classifier_lstm_size: int = field(default=90, metadata={"help": "width of each direction of the network's RNNs"})

    def check(self) -> None:
        """As in the base class."""
        super().check()
        if self.max_context_words < 0 or self.max_answer_words < 1:
            raise ValueError(
                f"max_context_words, max_answer_words: got {self.max_context_words}, {self.max_answer_words}; expected "
                "0 or more, and at least 1."
            )


def main(arguments: Sequence[str]) -> int:
    """Run from the command line; returns the exit status."""
    return exit_status(lambda: train_qa(arguments), prog=f"hf-elmo {NAME}")


def train_qa(arguments: Sequence[str]) -> dict[str, float]:
    """Train by the command's arguments; returns the metrics.

    Raises:
        OSError, ValueError: a file or an option is not as it should be.
        ImportError: an extra is missing.
    """
    options, training, changes = parse_task_arguments(
        QaOptions, arguments, prog=f"hf-elmo {NAME}", description=DESCRIPTION
    )
    check_output_dir(training)
    set_seed(training.seed)
    return run_task(_task(options, training, changes), options, training, arguments)


def _task(options: QaOptions, training: TaskTrainingArguments, changes: dict[str, Any]) -> Task:
    train, validation, test = _read(options, training)
    tokenizer = load_tokenizer(options)
    whole, cut = SpelledQuestions(tokenizer), SpelledQuestions(tokenizer, options.max_context_words)
    answerable = [question for question in train if cut.answer_words(question) is not None]
    if not answerable:
        raise ValueError(
            f"max_context_words: got {options.max_context_words}, beyond which all answers are; expected more, or 0."
        )
    if options.no_elmo:
        model = head_without_elmo(
            _CLASSES,
            options,
            changes,
            None,
            training_words=counted(_words(answerable, tokenizer)),
            other_words=set(counted(_words([*validation, *(test or [])], tokenizer))),
            max_characters_per_word=tokenizer.max_characters_per_word,
        )
    else:
        model = head_on_elmo(_CLASSES, options, changes, None)

    def answers(data: EncodedExamples[Question], output: Any) -> dict[str, str]:
        starts, ends = output.predictions
        rows = zip(data.examples, starts, ends, strict=True)
        return {q.id: whole.answer(q, start, end, options.max_answer_words) for q, start, end in rows}

    def metrics(data: EncodedExamples[Question], output: EvalPrediction) -> dict[str, float]:
        golds = {question.id: [answer.text for answer in question.answers] for question in data.examples}
        return squad_metrics(answers(data, output), golds)

    def write_predictions(folder: Path, data: EncodedExamples[Question], output: PredictionOutput) -> None:
        text = json.dumps(answers(data, output), ensure_ascii=False, indent=1)
        write_file(folder / "test_predictions.json", text + "\n")

    sets = {"training": answerable, "validation": validation, "test": test}
    return Task(
        name=NAME,
        title="question answering",
        pipeline_tag="question-answering",
        model=model,
        tokenizer=tokenizer,
        train=EncodedExamples(answerable, cut),
        validation=EncodedExamples(validation, whole),
        test=None if test is None else EncodedExamples(test, whole),
        collator=DataCollatorWithPadding(tokenizer),
        metrics=metrics,
        best_metric="f1",
        usage=_USAGE,
        summary=[
            *((f"{name} questions", f"{len(data):,}") for name, data in sets.items() if data is not None),
            ("left out, since the answer is beyond the cut", f"{len(train) - len(answerable):,}"),
        ],
        write_predictions=write_predictions,
    )


class SpelledQuestions:
    """A question and its context to word ids, character ids, and the answer's first and last place.

    Args:
        tokenizer: of the biLM.
        max_context_words: the context is cut there; 0: nowhere.
    """

    def __init__(self, tokenizer: ElmoTokenizer, max_context_words: int = 0) -> None:
        self._tokenizer = tokenizer
        self._max_context_words = max_context_words
        self._offsets: dict[str, list[tuple[int, int]]] = {}  # a context has several questions

    def offsets(self, context: str) -> list[tuple[int, int]]:
        """The first character of each word of a context, and the one after its last."""
        if context not in self._offsets:
            encoded = self._tokenizer(context, return_offsets_mapping=True, add_special_tokens=False)
            self._offsets[context] = [tuple(span) for span in encoded["offset_mapping"]]
        return self._offsets[context]

    def first_place(self, question: Question) -> int:
        """Where the context's first word is in the row `<S> question </S> <S> context </S>`."""
        return len(self._tokenizer.split_into_words(question.question)) + 3

    def answer_words(self, question: Question) -> tuple[int, int] | None:
        """The first and the last word of the usual answer, counted in the context; None where it is cut off."""
        answer = question.usual_answer
        words = words_of_answer(self.offsets(question.context), answer.start, answer.start + len(answer.text))
        cut = self._max_context_words and words is not None and words[1] >= self._max_context_words
        return None if cut else words

    def __call__(self, question: Question) -> dict[str, Any]:
        """The model's inputs; places that no word has where the answer is cut off."""
        encoded = dict(self._tokenizer(question.question, question.context))
        first = self.first_place(question)
        if 0 < self._max_context_words < len(self.offsets(question.context)):
            end = first + self._max_context_words  # and then the boundary
            encoded = {name: [*values[:end], values[-1]] for name, values in encoded.items()}
        words = self.answer_words(question)
        start, end = (-1, -1) if words is None else (first + words[0], first + words[1])
        return encoded | {"start_positions": start, "end_positions": end}

    def answer(
        self, question: Question, start_scores: NDArray[np.floating], end_scores: NDArray[np.floating], max_words: int
    ) -> str:
        """The best stretch of the context.

        Shape:
            start_scores, end_scores (T,), of the whole row
        """
        offsets, first = self.offsets(question.context), self.first_place(question)
        if not offsets:
            return ""
        places = slice(first, first + len(offsets))
        start, end = best_span(start_scores[places], end_scores[places], max_words=max_words)
        return question.context[offsets[start][0] : offsets[end][1]]


def _read(
    options: QaOptions, training: TaskTrainingArguments
) -> tuple[list[Question], list[Question], list[Question] | None]:
    train = read_squad(options.train_file)
    test = None if options.test_file is None else read_squad(options.test_file)
    if options.validation_file is None:
        train, validation = held_out(train, seed=training.seed)
    else:
        validation = read_squad(options.validation_file)
    for name, questions in {"validation_file": validation, "test_file": test or []}.items():
        if len({question.id for question in questions}) < len(questions):
            raise ValueError(f"{name}: got two questions with one id; expected each to have its own.")
    seed = training.seed if training.data_seed is None else training.data_seed
    return drawn(train, options.train_share, seed=seed), validation, test


def _words(questions: Iterable[Question], tokenizer: ElmoTokenizer) -> Iterable[list[str]]:
    for context in dict.fromkeys(question.context for question in questions):
        yield tokenizer.split_into_words(context)
    for question in questions:
        yield tokenizer.split_into_words(question.question)
