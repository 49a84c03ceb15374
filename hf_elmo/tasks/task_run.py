"""One training run of a task, from data and a model to a folder that a pipeline loads."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch.utils.data import SequentialSampler
from transformers import (
    EarlyStoppingCallback,
    EvalPrediction,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer_utils import IntervalStrategy, PredictionOutput

from hf_elmo.layer_cache import LayerCache
from hf_elmo.model_source import without_progress_bars
from hf_elmo.place_beside import place_inside
from hf_elmo.pretraining.run_results import hardware_of
from hf_elmo.task_model import ElmoTaskModel
from hf_elmo.tasks.data_sets import EncodedExamples
from hf_elmo.tasks.options import OF_THE_TASK, TaskOptions
from hf_elmo.tasks.remembered_layers import remembering_layers, why_not_remembered
from hf_elmo.tasks.results import RunResults, write_results
from hf_elmo.tokenization_elmo import ElmoTokenizer

logger = logging.getLogger(__name__)

Metrics = Callable[[EncodedExamples[Any], EvalPrediction], dict[str, float]]


@dataclass
class Task:
    """What differs from task to task.

    Attributes:
        name: of the command, such as `train-ner`.
        title: for a person, such as `token classification`.
        pipeline_tag: the Hub's name of the task.
        model, tokenizer: what is trained, and what spells its words.
        train, validation, test: the data.
        collator: examples to a batch.
        metrics: of predictions for some data.
        best_metric: the name of the one by which an epoch is the best.
        ignored_outputs: of the model, which metrics do not need.
        write_predictions: writes those for the test data into a folder.
        report: a table of more detail on the test data, or nothing.
        summary: what the data are, a line each, for the model card.
        settings: fields of the configuration that the model card names.
        usage: a program for the model card; `{name}` is the model's.
    """

    name: str
    title: str
    pipeline_tag: str
    model: ElmoTaskModel
    tokenizer: ElmoTokenizer
    train: EncodedExamples[Any]
    validation: EncodedExamples[Any]
    test: EncodedExamples[Any] | None
    collator: Any
    metrics: Metrics
    best_metric: str
    usage: str
    summary: list[tuple[str, str]]
    write_predictions: Callable[[Path, EncodedExamples[Any], PredictionOutput], None]
    settings: Sequence[str] = ("elmo_dropout", "classifier_lstm_size", "classifier_dropout")
    ignored_outputs: list[str] = field(default_factory=lambda: ["hidden_states"])
    report: Callable[[EncodedExamples[Any], PredictionOutput], str | None] = lambda data, output: None


def check_output_dir(training: TrainingArguments) -> None:
    """A model that is there already is not written over.

    Raises:
        ValueError: there is one, or a file in its place.
    """
    folder = Path(str(training.output_dir))
    if folder.is_file():
        raise ValueError(f"output_dir: got {str(folder)!r}, a file; expected a new folder.")
    if (folder / "config.json").is_file() and not training.resume_from_checkpoint:
        raise ValueError(
            f"output_dir: got {str(folder)!r}, which holds a model; expected a new folder, or --resume_from_checkpoint "
            "true to go on with the run that made it."
        )


def run_task(
    task: Task, options: TaskOptions, training: TrainingArguments, arguments: Sequence[str]
) -> dict[str, float]:
    """Train, measure, and write the best epoch's model with its card into `training.output_dir`.

    Returns:
        the metrics, `eval_...` of the validation data and `test_...`
    """
    if training.metric_for_best_model == OF_THE_TASK:
        training.metric_for_best_model = task.best_metric
    trainer = _trainer(task, options, training)
    cache, started = None, time.monotonic()
    reason = why_not_remembered(task.model, num_gpus=training.n_gpu) if options.layer_cache_gigabytes else "it is off"
    if reason is None:
        num_bytes = int(options.layer_cache_gigabytes * 1e9)
        cache = LayerCache(max_bytes=num_bytes, folder=options.layer_cache, max_folder_bytes=num_bytes)
        logger.info("The biLM is frozen: its layers are computed once a sentence and kept, not once an epoch.")
    elif not options.no_elmo:
        logger.info("The biLM's layers are computed anew in every epoch: %s.", reason)
    with ExitStack() as stack:
        if training.disable_tqdm:
            stack.enter_context(without_progress_bars())
        if cache is not None:
            stack.enter_context(remembering_layers(task.model, cache))
        trainer.train(resume_from_checkpoint=_resumed(training), ignore_keys_for_eval=task.ignored_outputs)
        trainer.callback_handler.remove_callback(EpochLines)
        metrics = _best_evaluation(trainer) or trainer.evaluate(ignore_keys=task.ignored_outputs)
        output = None
        if task.test is not None:
            trainer.compute_metrics = lambda prediction: task.metrics(task.test, prediction)  # type: ignore[arg-type]
            output = trainer.predict(task.test, ignore_keys=task.ignored_outputs)
            metrics |= output.metrics or {}
    if cache is not None:
        found = cache.statistics
        logger.info("Layer cache: %s sentences found, %s computed.", f"{found.hits:,}", f"{found.misses:,}")
    if trainer.is_world_process_zero():
        folder = Path(str(training.output_dir))
        _save(task, folder)
        report = None
        if task.test is not None and output is not None:
            task.write_predictions(folder, task.test, output)
            report = task.report(task.test, output)
        results = RunResults(
            task=task.title,
            command=shlex.join(["hf-elmo", task.name, *arguments]),
            log_history=trainer.state.log_history,
            metrics=metrics,
            seconds=time.monotonic() - started,
            hardware=hardware_of(training),
            best_metric=str(training.metric_for_best_model),
            remembered=cache is not None,
            report=report,
        )
        write_results(task, options, training, results, Console())
    trainer.accelerator.end_training()
    return metrics


class EpochLines(TrainerCallback):
    """A line for every evaluation, instead of Trainer's dictionaries."""

    def __init__(self, metric: str) -> None:
        self._metric = metric
        self._loss: float | None = None

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Remember the training loss; write a line where there are metrics."""
        logs = logs or {}
        self._loss = logs.get("loss", self._loss)
        if f"eval_{self._metric}" in logs and state.is_world_process_zero:
            loss = "" if self._loss is None else f"training loss {float(self._loss):.4f}, "
            epoch = f"{logs.get('epoch', 0):g}".rjust(3)
            values = f"validation loss {logs['eval_loss']:.4f}, {self._metric} {logs[f'eval_{self._metric}']:.4f}"
            logger.info("epoch %s: %s%s", epoch, loss, values)


class OrderedEvaluationTrainer(Trainer):
    """Trainer that evaluates examples in their order, also where it groups those to be trained on by length.

    Metrics then know to which example each prediction belongs.
    """

    def _get_eval_sampler(self, eval_dataset: Any) -> SequentialSampler | None:
        return SequentialSampler(eval_dataset) if self.args.world_size <= 1 else None


def _trainer(task: Task, options: TaskOptions, training: TrainingArguments) -> Trainer:
    callbacks: list[TrainerCallback] = []
    evaluates = training.eval_strategy != IntervalStrategy.NO
    if options.early_stopping_patience and evaluates and training.load_best_model_at_end:
        callbacks.append(EarlyStoppingCallback(options.early_stopping_patience))
    if training.disable_tqdm:
        callbacks.append(EpochLines(str(training.metric_for_best_model).removeprefix("eval_")))
    trainer = OrderedEvaluationTrainer(
        model=task.model,
        args=training,
        train_dataset=task.train,
        eval_dataset=task.validation,
        data_collator=task.collator,
        processing_class=task.tokenizer,
        compute_metrics=lambda prediction: task.metrics(task.validation, prediction),
        callbacks=callbacks,
    )
    if training.disable_tqdm:
        trainer.remove_callback(PrinterCallback)
    return trainer


def _best_evaluation(trainer: Trainer) -> dict[str, float]:
    """What was measured when the weights that were loaded at the end were stored; nothing where none were loaded."""
    state, training = trainer.state, trainer.args
    if not training.load_best_model_at_end or state.best_model_checkpoint is None:
        return {}
    name = str(training.metric_for_best_model)
    name = name if name.startswith("eval_") else f"eval_{name}"
    best = next((entry for entry in state.log_history if entry.get(name) == state.best_metric), {})
    return {key: value for key, value in best.items() if key.startswith("eval_")}


def _resumed(training: TrainingArguments) -> str | bool | None:
    """Of the flag's text."""
    given = training.resume_from_checkpoint
    return {"true": True, "false": None}.get(str(given).lower(), given)


def _save(task: Task, folder: Path) -> None:
    """The model and its tokenizer beside the folder's other files; config.json, by which it is one, comes last."""
    beside = place_inside(folder)
    try:
        with without_progress_bars():
            task.model.save_pretrained(beside)
        task.tokenizer.save_pretrained(beside)
        for path in sorted(beside.iterdir(), key=lambda path: path.name == "config.json"):
            os.replace(path, folder / path.name)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def exit_status(run: Callable[[], Any], *, prog: str) -> int:
    """Run a command; 2 where the input is at fault, 1 where the memory of a GPU is.

    Args:
        run: the command.
        prog: its name, for messages.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        run()
    except torch.cuda.OutOfMemoryError as error:
        print(f"{prog}: {error}; a smaller --per_device_train_batch_size takes less.", file=sys.stderr)
        return 1
    except (OSError, ValueError, ImportError) as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return 2
    return 0
