"""``hf-elmo perplexity``: how well a biLM predicts held-out text."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from hf_elmo.pretraining.perplexity_report import TextPerplexity
    from hf_elmo.pretraining.shards import PreparedCorpus

DESCRIPTION = """Computes the perplexity of every held-out text of a prepared corpus by the full softmax, in the
model's own vocabulary, for each way to begin a sentence: from zero, from the warm state stored with the
model, or in the state that the sentence before left."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.description = DESCRIPTION
    parser.add_argument(
        "model",
        metavar="MODEL",
        help='a folder or an id on the Hub, of a model with its softmax, or "default", the package\'s own',
    )
    parser.add_argument("prepared", type=Path, metavar="PREPARED", help="folder made by `hf-elmo prepare`")
    parser.add_argument(
        "--states",
        metavar="STATE,...",
        help="some of zero, warm, carry (default: zero, carry, and warm where the model stores one)",
    )
    parser.add_argument("--texts", metavar="NAME,...", help="some of the held-out texts (default: all)")
    parser.add_argument("--words", type=int, metavar="N", help="read the first N words of each text (default: all)")
    parser.add_argument(
        "--streams",
        type=int,
        default=64,
        metavar="B",
        help="parallel streams of carry; 1 reads the text in its order, more are faster (%(default)s)",
    )
    parser.add_argument("--device", help="such as cpu or cuda (default: a GPU where there is one)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file, too")


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit status, 2 where the input is at fault."""
    from rich.console import Console

    from hf_elmo.new_file import write_file
    from hf_elmo.pretraining.perplexity_report import as_json, conventions, table

    try:
        vocab_size, measured = _measure(args)
        sizes = {"vocab_size": vocab_size, "num_streams": args.streams}
        explanation = conventions(measured, **sizes)
        if args.json is not None:
            figures: dict[str, Any] = {
                "model": args.model,
                "prepared": str(args.prepared),
                **sizes,
                "conventions": explanation,
                "texts": as_json(measured),
            }
            args.json.parent.mkdir(parents=True, exist_ok=True)
            write_file(args.json, json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
    except (OSError, ValueError, ImportError) as error:
        print(f"hf-elmo perplexity: {error}", file=sys.stderr)
        return 2
    console = Console()
    console.print(table(measured))
    console.print(explanation, highlight=False, markup=False)
    return 0


def _measure(args: argparse.Namespace) -> tuple[int, list[TextPerplexity]]:
    import torch
    from rich.console import Console

    from hf_elmo.pretraining.corpus_with_vocabulary import with_vocabulary
    from hf_elmo.pretraining.perplexity_by_state import STATES, check_states
    from hf_elmo.pretraining.perplexity_report import measure
    from hf_elmo.pretraining.shards import PreparedCorpus
    from hf_elmo.pretraining.source_model import load_source_model

    for name in ("streams", "words"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            raise ValueError(f"--{name}: got {getattr(args, name)}; expected 1 or more.")
    device = _device(args.device)
    prepared = PreparedCorpus.open(args.prepared)
    splits = _splits(prepared, args.texts)
    source = load_source_model(args.model)
    if not source.has_head:
        raise ValueError(
            f"{args.model}: got a model without a softmax, which predicts no words; expected the folder of a run, or "
            "one published by `hf-elmo publish --with-lm-head`."
        )
    model = source.model
    torch.nn.Module.to(model, device)
    has_warm_state = model.config.initial_state == "warm"
    states = args.states.split(",") if args.states else [s for s in STATES if s != "warm" or has_warm_state]
    check_states(model, states)
    corpus = with_vocabulary(prepared, source.vocabulary)
    with Console(stderr=True).status("reading") as status:
        measured = measure(
            model,
            corpus,
            splits,
            states=states,
            num_words=args.words,
            num_streams=args.streams,
            progress=status.update,
        )
    return corpus.vocab_size, measured


def _splits(prepared: PreparedCorpus, texts: str | None) -> list[str]:
    known = {split.removeprefix("heldout-"): split for split in prepared.heldout_splits}
    if not known:
        raise ValueError(
            f"{prepared.path}: got a corpus without held-out text; expected one prepared with --heldout or "
            "--heldout-share."
        )
    names = texts.split(",") if texts else list(known)
    for name in names:
        if name not in known:
            raise ValueError(f"--texts: got {name!r}; expected some of {', '.join(known)}.")
    return [known[name] for name in names]


def _device(name: str | None) -> torch.device:
    import torch

    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"--device: got {name!r}, which cannot be used here: {error}") from error
    return device
