"""What a training run of a task is told, and how it is read from flags and a YAML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar

from transformers import HfArgumentParser, TrainingArguments

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.model_source import SHIPPED
from hf_elmo.pretraining.arguments import parse_with_recipe

# The metric by which an epoch is the best; TrainingArguments would make of None the loss.
OF_THE_TASK = "of the task"
# Fields of ElmoConfig that a head reads; all others belong to the biLM's weights.
HEAD_FIELDS = (
    "elmo_placement",
    "elmo_dropout",
    "mix_layers",
    "mix_layer_norm",
    "mix_layer_norm_eps",
    "mix_l2",
    "mix_trainable",
    "freeze_bilm",
    "classifier_num_layers",
    "classifier_lstm_size",
    "classifier_dropout",
    "use_crf",
    "pooling",
    "pool_boundaries",
    "sentence_pairs",
)
OptionsT = TypeVar("OptionsT", bound="TaskOptions")


@dataclass
class TaskOptions:
    """Data, biLM and head; everything about the optimisation is in transformers' TrainingArguments."""

    train_file: str = field(metadata={"help": "what is trained on"})
    validation_file: str | None = field(
        default=None,
        metadata={"help": "what the best epoch is chosen by (default: a tenth of train_file, which is then held out)"},
    )
    test_file: str | None = field(default=None, metadata={"help": "what is measured at the end"})
    train_share: float = field(
        default=1.0, metadata={"help": "train on this share of train_file, drawn by --data_seed or else --seed"}
    )
    model_name_or_path: str = field(
        default=SHIPPED,
        metadata={"help": 'the biLM: a folder, an id on the Hub, or "default", the model in the package'},
    )
    revision: str | None = field(default=None, metadata={"help": "of a biLM on the Hub: branch, tag or commit"})
    no_elmo: bool = field(
        default=False,
        metadata={"help": "the same network on static word vectors, trained with it, instead of ELMo: a baseline"},
    )
    word_vectors: str | None = field(
        default=None,
        metadata={
            "help": "with no_elmo: start at these vectors, a word and its numbers a line, plain or .gz "
            "(default: random ones)"
        },
    )
    word_vector_size: int = field(default=100, metadata={"help": "with no_elmo: width of random vectors"})
    freeze_bilm: bool = field(default=True, metadata={"help": "false: train the biLM too"})
    elmo_placement: Literal["input", "output", "both"] = field(
        default="input", metadata={"help": "where ELMo goes: input of the task's network, output, or both"}
    )
    elmo_dropout: float = field(default=0.5, metadata={"help": "on what ELMo gives"})
    mix_l2: float = field(default=0.001, metadata={"help": "λ: penalty λ‖w‖² on the scalar mix's weights"})
    classifier_lstm_size: int = field(default=200, metadata={"help": "width of each direction of the network's RNNs"})
    classifier_dropout: float = field(default=0.2, metadata={"help": "within the task's network"})
    layer_cache: str | None = field(
        default=None, metadata={"help": "folder that keeps a frozen biLM's layers for later runs too"}
    )
    layer_cache_gigabytes: float = field(
        default=4.0, metadata={"help": "of memory, and of the folder, for a frozen biLM's layers; 0: compute them anew"}
    )
    early_stopping_patience: int = field(
        default=5, metadata={"help": "stop after so many evaluations without a better one; 0: never"}
    )
    data_name: str | None = field(default=None, metadata={"help": "for the model card: what the data are called"})
    data_licence: str | None = field(default=None, metadata={"help": "for the model card: licence of the data"})
    model_licence: str | None = field(
        default=None, metadata={"help": "for the model card: licence of the weights, as the Hub writes it (apache-2.0)"}
    )
    language: str = field(default="en", metadata={"help": "for the model card: the text's language code"})

    def check(self) -> None:
        """Raises ValueError where an option is out of its range or two contradict each other."""
        if not 0 < self.train_share <= 1:
            raise ValueError(f"train_share: got {self.train_share}; expected more than 0, and at most 1.")
        for name in ("layer_cache_gigabytes", "early_stopping_patience"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: got {getattr(self, name)}; expected 0 or more.")
        if self.word_vector_size < 1:
            raise ValueError(f"word_vector_size: got {self.word_vector_size}; expected at least 1.")
        if self.word_vectors is not None and not self.no_elmo:
            raise ValueError("word_vectors: got a file without --no_elmo; expected it where ELMo is left out.")
        if self.no_elmo and self.elmo_placement != "input":
            raise ValueError(f"elmo_placement: got {self.elmo_placement!r} with --no_elmo; expected 'input'.")

    def head_options(self) -> dict[str, Any]:
        """The fields of ElmoConfig that these options say."""
        names = {option.name for option in fields(self)} & set(HEAD_FIELDS)
        return {name: getattr(self, name) for name in names}


@dataclass
class TaskTrainingArguments(TrainingArguments):
    """TrainingArguments with defaults for small networks on local files; each can be set as ever."""

    num_train_epochs: float = field(default=20.0, metadata={"help": "passes over the data at most"})
    per_device_train_batch_size: int = field(default=32, metadata={"help": "examples of an update"})
    per_device_eval_batch_size: int = field(default=64, metadata={"help": "examples of a batch of evaluation"})
    learning_rate: float = field(default=2e-3, metadata={"help": "of AdamW"})
    max_grad_norm: float = field(default=5.0, metadata={"help": "gradients are clipped at this norm"})
    train_sampling_strategy: str = field(
        default="group_by_length", metadata={"help": "random, group_by_length or sequential"}
    )
    eval_strategy: str = field(default="epoch", metadata={"help": "no, steps or epoch"})
    save_strategy: str = field(default="epoch", metadata={"help": "no, steps or epoch"})
    logging_strategy: str = field(default="epoch", metadata={"help": "no, steps or epoch"})
    save_total_limit: int | None = field(default=1, metadata={"help": "checkpoints that are kept beside the best"})
    metric_for_best_model: str | None = field(
        default=OF_THE_TASK, metadata={"help": "by which an epoch is the best (default: the task's)"}
    )
    load_best_model_at_end: bool = field(default=True, metadata={"help": "end with the best epoch's weights"})
    disable_tqdm: bool | None = field(default=True, metadata={"help": "false: bars instead of a line an epoch"})


def parse_task_arguments(
    kind: type[OptionsT], arguments: Sequence[str], *, prog: str, description: str
) -> tuple[OptionsT, TaskTrainingArguments, dict[str, Any]]:
    """Flags over the values of `--config FILE.yaml`; `--model NAME=VALUE` sets the head's other fields.

    Raises:
        FileNotFoundError, ValueError: a file or a value is not as it should be.
        SystemExit: an unknown flag, a missing one, or `--help`.
    """
    parser = HfArgumentParser(
        [kind, TaskTrainingArguments],  # type: ignore[list-item]  # any dataclass
        prog=prog,
        usage="%(prog)s --train_file FILE --output_dir DIR [--config FILE.yaml] [--OPTION VALUE ...]",
        description=description,
        allow_abbrev=False,
    )
    for action in parser._actions:
        action.required = action.required or action.dest == "output_dir"
    _check_config(arguments)
    (options, training, _), changes = parse_with_recipe(
        parser, arguments, model_help=f"more fields of ElmoConfig for the head: {', '.join(HEAD_FIELDS)}"
    )
    for name in changes:
        if name not in HEAD_FIELDS:
            raise ValueError(
                f"--model: got {name}, which is no field of a head; expected some of {', '.join(HEAD_FIELDS)}."
            )
    options.check()
    return options, training, {**options.head_options(), **changes}


def changed_config(config: ElmoConfig, changes: dict[str, Any], labels: Sequence[str] | None) -> ElmoConfig:
    """A biLM's configuration with a head's options and the names of its classes.

    Raises:
        ValueError: a value out of its range.
    """
    own = {name: value for name, value in config.to_dict().items() if name not in ("architectures", "auto_map")}
    if labels is not None:
        changes = {
            **changes,
            "id2label": dict(enumerate(labels)),
            "label2id": {label: number for number, label in enumerate(labels)},
        }
    return type(config).from_dict({**own, **changes})


def _check_config(arguments: Sequence[str]) -> None:
    """A configuration is a YAML file of one's own."""
    for flag, value in pairwise(arguments):
        if flag in ("--config", "--recipe") and (
            not Path(value).is_file() or Path(value).suffix not in (".yaml", ".yml")
        ):
            raise FileNotFoundError(f"{flag}: got {value!r}; expected a YAML file with flags' names and values.")
