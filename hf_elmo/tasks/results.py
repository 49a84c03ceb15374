"""What a task's run leaves beside its weights: metrics, log, learnt layer weights, figures, the model card."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import EvalResult, ModelCardData
from rich.console import Console
from rich.table import Table
from transformers import TrainingArguments

from hf_elmo.layer_weights import layer_names, show_layer_weights
from hf_elmo.model_source import is_shipped
from hf_elmo.new_file import write_file
from hf_elmo.pretraining.learning_curve import TRAINING_LOG
from hf_elmo.tasks.mix_weights import Weights, learnt_mixes
from hf_elmo.tasks.options import TaskOptions
from hf_elmo.tasks.task_curve import draw_task_curve

if TYPE_CHECKING:
    from hf_elmo.tasks.task_run import Task

logger = logging.getLogger(__name__)

METRICS, WEIGHTS_FIGURE, CURVE_FIGURE = "metrics.json", "layer_weights.png", "learning_curve.png"
_SPEED = ("runtime", "samples_per_second", "steps_per_second", "model_preparation_time")

_CARD = """---
{metadata}
---

# {name}

{title} by {network} on {vectors}, made by `{program}`.

```python
{usage}
```

`"{name}"` is this folder's path, or its id on the Hub.

## Results

{metrics}

{report}{kept}

## Data

{data}

## Training

{steps} updates of {batch_size} examples (epochs: {epochs}); {seconds} on {hardware}{remembered}.

```bash
{command}
```

{settings}
{curve}{layers}
## Limits

* The figures are those of one run with one seed, on the data above; on text of another kind they are lower.
* Words are expected as the training data split them; a word is read up to its {num_bytes}th byte of UTF-8.
"""


@dataclass(frozen=True)
class RunResults:
    """What a run came to.

    Attributes:
        task: for a person.
        command: as it was given.
        log_history: of the Trainer.
        metrics: `eval_...` of the validation data, `test_...` of the test data.
        seconds: it took, evaluation included.
        hardware: it ran on.
        best_metric: by which the best epoch was chosen.
        remembered: whether the biLM's layers were computed once only.
        report: a table of more detail.
    """

    task: str
    command: str
    log_history: Sequence[Mapping[str, Any]]
    metrics: Mapping[str, float]
    seconds: float
    hardware: str
    best_metric: str
    remembered: bool
    report: str | None = None


def write_results(
    task: Task, options: TaskOptions, training: TrainingArguments, results: RunResults, console: Console
) -> None:
    """Write metrics, log, figures and card into the run's folder, and show metrics and layer weights."""
    folder = Path(str(training.output_dir))
    write_file(folder / METRICS, json.dumps(dict(results.metrics), indent=1) + "\n")
    write_file(folder / TRAINING_LOG, json.dumps(list(results.log_history), indent=1) + "\n")
    console.print(_metrics_table(results.metrics))
    if results.report:
        console.print(results.report, highlight=False, markup=False)
    mixes = learnt_mixes(task.model, task.title)
    if mixes:
        console.print(show_layer_weights(mixes, figure=False).table)
    curve = _drawn(lambda: draw_task_curve(results.log_history, results.best_metric, folder / CURVE_FIGURE))
    weights = bool(mixes) and _drawn(lambda: _save_weights_figure(mixes, folder / WEIGHTS_FIGURE))
    card = _card(task, options, training, results, mixes, has_curve=curve, has_weights=weights)
    write_file(folder / "README.md", card)
    console.print(f"{folder}: model, tokenizer, README.md, {METRICS}", highlight=False, markup=False)


def shown_metrics(metrics: Mapping[str, float]) -> dict[str, tuple[float | None, float | None]]:
    """By name the values on the validation and on the test data, without what says how fast they were found."""
    names = dict.fromkeys(name.partition("_")[2] for name in metrics if name.startswith(("eval_", "test_")))
    return {name: (metrics.get(f"eval_{name}"), metrics.get(f"test_{name}")) for name in names if name not in _SPEED}


def _metrics_table(metrics: Mapping[str, float]) -> Table:
    table = Table(title="Results", title_justify="left")
    for header in ("", "validation", "test"):
        table.add_column(header, justify="left" if not header else "right")
    for name, values in shown_metrics(metrics).items():
        table.add_row(name, *map(_number, values))
    return table


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}" if abs(value) <= 1 else f"{value:.2f}"


def _save_weights_figure(mixes: Mapping[str, Weights], out: Path) -> None:
    figure = show_layer_weights(mixes).figure
    assert figure is not None
    figure.savefig(out)


def _drawn(draw: Any) -> bool:
    """Whether a figure could be drawn; the log says why not."""
    try:
        draw()
    except (ImportError, ValueError) as error:
        logger.info("No figure: %s", error)
        return False
    return True


def _card(
    task: Task,
    options: TaskOptions,
    training: TrainingArguments,
    results: RunResults,
    mixes: Mapping[str, Weights],
    *,
    has_curve: bool,
    has_weights: bool,
) -> str:
    name = Path(str(training.output_dir)).resolve().name
    steps = max((int(entry.get("step", 0)) for entry in results.log_history), default=0)
    epochs = max((float(entry.get("epoch", 0)) for entry in results.log_history), default=0)
    batch_size = training.per_device_train_batch_size * training.gradient_accumulation_steps * training.world_size
    return _CARD.format(
        metadata=_metadata(task, options, results, name).to_yaml(),
        name=name,
        title=task.title.capitalize(),
        network=task.model.__class__.__name__,
        vectors=_vectors(task, options),
        program=f"hf-elmo {task.name}",
        usage=task.usage.format(name=name),
        metrics=_table(
            ("", "validation", "test"),
            [(metric, *map(_number, values)) for metric, values in shown_metrics(results.metrics).items()],
        ),
        report=f"```text\n{results.report.rstrip()}\n```\n\n" if results.report else "",
        kept=_kept(training, results),
        data=_table(("", ""), _data_rows(task, options)),
        steps=f"{steps:,}",
        batch_size=batch_size,
        epochs=f"{epochs:g}",
        seconds=f"{results.seconds:.0f} seconds" if results.seconds < 120 else f"{results.seconds / 60:.0f} minutes",
        hardware=results.hardware,
        remembered="; the frozen biLM read every sentence once" if results.remembered else "",
        command=results.command,
        settings=_table(("setting", "value"), _settings(task, options, training).items()),
        curve=f"\n![Losses and validation {results.best_metric} by epoch]({CURVE_FIGURE})\n" if has_curve else "",
        layers=_layers(mixes, has_weights),
        num_bytes=task.model.config.max_characters_per_word - 2,
    )


def _metadata(task: Task, options: TaskOptions, results: RunResults, name: str) -> ModelCardData:
    data = options.data_name or Path(options.test_file or options.validation_file or options.train_file).name
    split = "test" if options.test_file else "validation"
    prefix = "test_" if options.test_file else "eval_"
    values = {
        name: value
        for name, value in results.metrics.items()
        if name.startswith(prefix) and name.removeprefix(prefix) not in (*_SPEED, "loss")
    }
    evaluated = [
        EvalResult(
            task_type=task.pipeline_tag,
            dataset_type=data,
            dataset_name=data,
            dataset_split=split,
            metric_type=metric.removeprefix(prefix),
            metric_value=value,
        )
        for metric, value in values.items()
    ]
    source = options.model_name_or_path
    on_hub = not is_shipped(source) and not Path(source).is_dir() and not options.no_elmo
    return ModelCardData(
        language=options.language,
        license=options.model_licence,
        library_name="transformers",
        tags=["hf_elmo", "baseline" if options.no_elmo else "elmo"],
        pipeline_tag=task.pipeline_tag,
        metrics=[n.removeprefix(prefix) for n in values],
        base_model=source if on_hub else None,
        model_name=name,
        eval_results=evaluated,
    )


def _vectors(task: Task, options: TaskOptions) -> str:
    if options.no_elmo:
        start = "random ones" if options.word_vectors is None else f"`{Path(options.word_vectors).name}`"
        return f"static word vectors of {task.model.config.hidden_size} components, trained with it from {start}"
    source = options.model_name_or_path
    shown = "the model in the package"
    if not is_shipped(source):
        shown = f"`{Path(source).resolve().name if Path(source).is_dir() else source}`"
    return f"ELMo ({shown}, {'frozen' if task.model.config.freeze_bilm else 'trained too'})"


def _data_rows(task: Task, options: TaskOptions) -> Iterable[tuple[str, str]]:
    yield "data", options.data_name or "not named"
    yield "licence", options.data_licence or "not stated"
    files = {"training": options.train_file, "validation": options.validation_file, "test": options.test_file}
    for name, file in files.items():
        if file is not None:
            yield f"{name} file", f"`{Path(file).name}`"
    if options.validation_file is None:
        yield "validation", "a tenth of the training file, held out"
    if options.train_share < 1:
        yield "share of the training data", f"{100 * options.train_share:g} %"
    yield from task.summary


def _kept(training: TrainingArguments, results: RunResults) -> str:
    if training.load_best_model_at_end:
        return f"The epoch with the best validation {results.best_metric} was kept."
    return "The last epoch was kept, whatever the validation data said."


def _settings(task: Task, options: TaskOptions, training: TrainingArguments) -> dict[str, Any]:
    config = task.model.config
    settings = {
        "optimiser": str(getattr(training.optim, "value", training.optim)),
        "learning rate": f"{training.learning_rate:g}, {getattr(training.lr_scheduler_type, 'value', '')}",
        "gradient clipped at norm": training.max_grad_norm,
        "seed": training.seed,
    }
    names = task.settings if options.no_elmo else ("elmo_placement", "mix_l2", *task.settings)
    for name in names:
        settings[f"`{name}`"] = getattr(config, name)
    return settings


def _layers(mixes: Mapping[str, Weights], has_figure: bool) -> str:
    if not mixes:
        return ""
    depth = len(next(iter(mixes.values()))[0])
    rows = [
        (task, *("not mixed" if share is None else f"{share:.3f}" for share in shares), f"{gamma:.3f}")
        for task, (shares, gamma) in mixes.items()
    ]
    figure = f"\n![Share of each layer in the scalar mix]({WEIGHTS_FIGURE})\n" if has_figure else ""
    return f"\n## Learnt layer weights\n\n{_table(('', *layer_names(depth), 'γ'), rows)}\n{figure}"


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
