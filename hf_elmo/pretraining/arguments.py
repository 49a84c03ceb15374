"""What a pretraining run is told: recipes, flags, and fields of the model's configuration."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
import yaml
from huggingface_hub.errors import StrictDataclassError
from transformers import HfArgumentParser, TrainingArguments

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.pretraining.options_recipe import read_options_recipe
from hf_elmo.pretraining.streams import Shuffle
from hf_elmo.pretraining.text import TextAs

RECIPES = Path(__file__).parent / "recipes"


@dataclass
class PretrainingOptions:
    """What is trained on what; everything about the optimisation is in transformers' TrainingArguments.

    Of these `per_device_train_batch_size` counts the streams of a process, `per_device_eval_batch_size` those of a
    held-out text, and `num_train_epochs` the passes over the text.
    """

    prepared: str = field(metadata={"help": "folder made by `hf-elmo prepare`"})
    vocab_size: int | None = field(
        default=None, metadata={"help": "words of the softmax, the three special ones included (default: as prepared)"}
    )
    init_from: str | None = field(
        default=None,
        metadata={"help": "folder of a language model to go on from, such as `hf-elmo convert` makes of a checkpoint"},
    )
    text_as: TextAs = field(
        default="streams",
        metadata={
            "help": "streams: rows that go on from batch to batch, as in the reference; sentences: each by itself from "
            "the model's initial state, as many as fit into a batch of streams; held-out text is read in the same way"
        },
    )
    words_per_epoch: int | None = field(
        default=None, metadata={"help": "words that num_train_epochs counts as one pass (default: those of the text)"}
    )
    unroll_steps: int = field(default=20, metadata={"help": "words between two updates of a stream"})
    shuffle: Shuffle = field(default="independent", metadata={"help": "order of the two directions' sentences"})
    start_at_word_frequencies: bool = field(
        default=False, metadata={"help": "start the softmax's biases at the log of the words' frequencies"}
    )
    word_vectors: str | None = field(
        default=None,
        metadata={
            "help": "start the softmax at static vectors: a text file, plain or .gz, a word and its numbers a line"
        },
    )
    word_vector_steps: int = field(
        default=0, metadata={"help": "first fit the token layer to --word_vectors, with so many updates of 512 words"}
    )
    scale_loss_by_unroll_steps: bool = field(
        default=False, metadata={"help": "take the gradient of the loss times unroll_steps, as the reference does"}
    )
    sparse_softmax_gradient: bool = field(
        default=False,
        metadata={
            "help": "where the softmax is sampled, update only the rows that a batch reads: the same update, faster "
            "with a large vocabulary (--optim adagrad)"
        },
    )
    adagrad_accumulator: float = field(default=1.0, metadata={"help": "initial accumulator of --optim adagrad"})
    heldout_tokens: int = field(
        default=20_000, metadata={"help": "words of each held-out text to evaluate on while training; 0 for all"}
    )
    data_licences: str | None = field(
        default=None, metadata={"help": "YAML file, for the model card: source or held-out text → its licence"}
    )
    model_licence: str | None = field(
        default=None, metadata={"help": "for the model card: licence of the weights, as the Hub writes it (apache-2.0)"}
    )
    language: str = field(default="en", metadata={"help": "for the model card: the text's language code"})


def recipe_path(name: str) -> Path:
    """The file of a recipe, given its name or its path.

    Raises:
        FileNotFoundError: neither a recipe of the package nor a file.
    """
    for path in (Path(name), RECIPES / f"{name}.yaml"):
        if path.is_file():
            return path
    known = ", ".join(sorted(path.stem for path in RECIPES.glob("*.yaml")))
    raise FileNotFoundError(
        f"recipe: got {name!r}; expected one of {known}, or the path of a YAML file or of bilm-tf's options.json."
    )


def read_recipe(
    path: Path, kinds: Iterable[Any] = (PretrainingOptions, TrainingArguments)
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A recipe's options, of the dataclasses `kinds`, and under its key `model` those of ElmoConfig.

    A `.json` file is read as bilm-tf's options.

    Raises:
        ValueError: not a mapping, or an option that does not exist.
    """
    if path.suffix.lower() == ".json":
        return read_options_recipe(path)
    recipe = read_mapping(path)
    model = recipe.pop("model", {})
    if not isinstance(model, dict):
        raise ValueError(f"{path}: model: got {model!r}; expected a mapping of ElmoConfig's fields.")
    known = {option.name for kind in kinds for option in fields(kind)}
    for name in recipe:
        if name not in known:
            raise ValueError(f"{path}: got the option {name!r}, which does not exist{_did_you_mean(name, known)}")
    return recipe, model


def parse_arguments(arguments: Sequence[str]) -> tuple[PretrainingOptions, TrainingArguments, dict[str, Any]]:
    """Flags over the values of `--recipe`; `--model NAME=VALUE` sets fields of ElmoConfig.

    Raises:
        FileNotFoundError, ValueError: a recipe or a value is not as it should be.
        SystemExit: an unknown flag, a missing one, or `--help`.
    """
    parser = HfArgumentParser(
        [PretrainingOptions, TrainingArguments],  # type: ignore[list-item]  # any dataclass
        prog="hf-elmo pretrain",
        usage="%(prog)s --prepared DIR --output_dir DIR [--recipe NAME] [--model NAME=VALUE ...] [--OPTION VALUE ...]",
        description="Pretrain a biLM on a prepared corpus.  "
        "Several GPUs: `torchrun --nproc_per_node N -m hf_elmo.pretraining.pretrain`.",
        allow_abbrev=False,
    )
    (options, training, _), model = parse_with_recipe(parser, arguments)
    return options, training, model


def parse_with_recipe(
    parser: HfArgumentParser,
    arguments: Sequence[str],
    *,
    default_recipe: str | None = None,
    model_help: str = "fields of ElmoConfig, such as lstm_size=512",
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The parser's dataclasses and a namespace of the rest, from flags over a recipe; and the fields of ElmoConfig.

    Adds `--recipe` and `--model` to the parser; `default_recipe` is taken where none is named, `model_help` shown for
    `--model`.

    Raises: as `parse_arguments`.
    """
    parser.add_argument(
        "--recipe",
        "--config",
        dest="recipe",
        default=default_recipe,
        help="a recipe of the package, a YAML file, or an options.json of bilm-tf's training; flags go over it",
    )
    parser.add_argument(
        "--model",
        nargs="*",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help=model_help,
    )
    if not torch.accelerator.is_available():
        parser.set_defaults(use_cpu=True)  # without it transformers refuses bf16, which the CPU computes too
    model: dict[str, Any] = {}
    recipe_name = _recipe_of(arguments) or default_recipe
    if recipe_name is not None:
        recipe, model = read_recipe(recipe_path(recipe_name), parser.dataclass_types)
        # As text a value is read and checked like a flag's.
        parser.set_defaults(**{name: str(v) if isinstance(v, (bool, int, float)) else v for name, v in recipe.items()})
        for action in parser._actions:
            action.required = action.required and action.dest not in recipe
    *parsed, rest, unknown = parser.parse_args_into_dataclasses(
        args=list(arguments), look_for_args_file=False, return_remaining_strings=True
    )
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    for assignment in rest.model:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise ValueError(f"--model: got {assignment!r}; expected NAME=VALUE.")
        model[name] = yaml.safe_load(value)
    return (*parsed, rest), model


def model_config(vocab_size: int, model_options: Mapping[str, Any]) -> ElmoConfig:
    """The configuration of a biLM with a softmax over `vocab_size` words.

    Raises:
        ValueError: a field that does not exist, or one out of range.
    """
    for name in model_options:
        if name == "vocab_size":
            raise ValueError("model: got vocab_size; set it by --vocab_size, which counts the words of the softmax.")
        if name not in ElmoConfig.__annotations__:
            known = set(ElmoConfig.__annotations__)
            raise ValueError(f"model: got {name!r}, which is no field of ElmoConfig{_did_you_mean(name, known)}")
    try:
        return ElmoConfig(vocab_size=vocab_size + 1, **model_options)
    except StrictDataclassError as error:
        raise ValueError(f"model: {error.__cause__ or error}") from error


def read_mapping(path: Path) -> dict[str, Any]:
    """The content of a YAML file.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no YAML, or no mapping.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: got something that is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: got {type(content).__name__}; expected a mapping.")
    return content


def _recipe_of(arguments: Sequence[str]) -> str | None:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--recipe", "--config", dest="recipe")
    name: str | None = parser.parse_known_args(arguments)[0].recipe
    return name


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else "."
