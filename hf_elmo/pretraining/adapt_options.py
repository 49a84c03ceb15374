"""What an adaptation is told: model, text, vocabulary, and what pretraining is told as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from transformers import HfArgumentParser, TrainingArguments

from hf_elmo.pretraining.arguments import PretrainingOptions, parse_with_recipe
from hf_elmo.pretraining.corpus import LAYOUTS, Layout
from hf_elmo.pretraining.prepare_options import DocumentUnit

RECIPE = "adapt"
# The fields of ElmoConfig that only training reads; all others belong to the weights.
CHANGEABLE = ("dropout", "lm_softmax", "num_negative_samples")


@dataclass
class AdaptOptions(PretrainingOptions):
    """What is adapted to what; everything about the optimisation is in transformers' TrainingArguments.

    Of these `max_steps` is 0 where nothing is to be trained, only a warm state stored.
    """

    prepared: str = field(default="", init=False)
    start_at_word_frequencies: bool = field(default=True, init=False)
    init_from: str | None = field(default=None, init=False)
    word_vectors: str | None = field(default=None, init=False)
    word_vector_steps: int = field(default=0, init=False)
    vocabulary: Literal["keep", "new"] | None = field(
        default=None,
        metadata={
            "help": "words of the softmax: MODEL's, or new ones from the text; if not given MODEL's, if it has one"
        },
    )
    head_warm_up_steps: int = field(
        default=0, metadata={"help": "updates of the softmax alone before the biLM is trained too"}
    )
    store_warm_state: bool = field(
        default=False,
        metadata={"help": "store the state in which sentences begin, on average over the training text"},
    )
    warm_state_tokens: int = field(
        default=20_000, metadata={"help": "words of the training text that the warm state is computed on; 0 for all"}
    )


@dataclass
class TextOptions:
    """How raw text is read, as in `hf-elmo prepare`; nothing of it applies to a prepared folder."""

    heldout: list[str] = field(
        default_factory=list, metadata={"help": "raw text held out; a split of its own for each NAME"}
    )
    heldout_share: float = field(default=0.0, metadata={"help": "hold out this share of the training documents"})
    layout: Layout = field(default="auto", metadata={"help": "layout of sources that name none"})
    document: DocumentUnit = field(default="file", metadata={"help": "what is held out or kept whole"})
    min_count: int = field(
        default=2, metadata={"help": "a new vocabulary has the words seen so often (or vocab_size of them)"}
    )
    encoding: str = field(default="utf-8", metadata={"help": "of the raw text"})
    encoding_errors: str = field(default="strict", metadata={"help": "strict, replace or ignore"})
    column: str = field(default="text", metadata={"help": "text column of Parquet files and datasets"})
    processes: int = field(default=1, metadata={"help": "that tokenise"})

    def given(self) -> list[str]:
        """Names of the options that say something about raw text."""
        default = TextOptions(processes=self.processes)
        return [option.name for option in fields(self) if getattr(self, option.name) != getattr(default, option.name)]


class AdaptArguments(NamedTuple):
    """All that an adaptation is told."""

    model: str
    corpus: Sequence[str]
    options: AdaptOptions
    text: TextOptions
    training: TrainingArguments
    changes: dict[str, Any]


def parse_adapt_arguments(arguments: Sequence[str]) -> AdaptArguments:
    """Flags over the values of `--recipe`; `--model NAME=VALUE` sets the fields of ElmoConfig that training reads.

    Raises:
        FileNotFoundError, ValueError: a recipe or a value is not as it should be.
        SystemExit: an unknown flag, a missing one, or `--help`.
    """
    parser = HfArgumentParser(
        [AdaptOptions, TextOptions, TrainingArguments],  # type: ignore[list-item]  # any dataclass
        prog="hf-elmo adapt",
        usage="%(prog)s MODEL CORPUS [CORPUS ...] --output_dir DIR [--recipe NAME] [--OPTION VALUE ...]",
        description="Go on training a biLM on text of a domain.  "
        "Several GPUs: `torchrun --nproc_per_node N -m hf_elmo.pretraining.adapt`.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "source", metavar="MODEL", help='a folder, an id on the Hub, or "default", the model in the package'
    )
    parser.add_argument(
        "corpus",
        nargs="+",
        metavar="CORPUS",
        help="a folder made by `hf-elmo prepare`, or raw text as its --train takes it: [NAME[:LAYOUT]=]LOCATION, a "
        f"file, a folder or a pattern (layouts: {', '.join(LAYOUTS)}); it is then prepared under output_dir",
    )
    for action in parser._actions:
        action.required = action.required or action.dest == "output_dir"
    (options, text, training, rest), changes = parse_with_recipe(
        parser,
        arguments,
        default_recipe=RECIPE,
        model_help=f"fields of ElmoConfig that only training reads: {', '.join(CHANGEABLE)}",
    )
    for name in changes:
        if name not in CHANGEABLE:
            raise ValueError(
                f"--model: got {name}, which belongs to the weights of {rest.source}; expected one of "
                f"{', '.join(CHANGEABLE)}, which only training reads."
            )
    check_options(options, training)
    return AdaptArguments(rest.source, rest.corpus, options, text, training, changes)


def check_options(options: AdaptOptions, training: TrainingArguments) -> None:
    """Raises ValueError where an option is out of its range or two contradict each other."""
    for name in ("head_warm_up_steps", "warm_state_tokens", "heldout_tokens"):
        if getattr(options, name) < 0:
            raise ValueError(f"{name}: got {getattr(options, name)}; expected 0 or more.")
    if training.max_steps == 0 and not options.store_warm_state:
        raise ValueError(
            "max_steps: got 0, which trains nothing; expected a positive number, or --store_warm_state, to store a "
            "warm state without training."
        )
    if training.max_steps == 0 and (options.vocabulary == "new" or options.head_warm_up_steps):
        raise ValueError(
            "max_steps: got 0 together with a new vocabulary or a warm-up of the softmax; expected a positive number, "
            "since a softmax is started to be trained."
        )
    if Path(str(training.output_dir)).is_file():
        raise ValueError(f"output_dir: got {training.output_dir!r}, a file; expected a new folder.")
