"""``hf-elmo layer-weights``: what task models have learnt of ELMo's layers, as a table and a figure."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

DESCRIPTION = """Shows the share of each biLM layer in the scalar mixes of task models, one row a mix (figure 2 of
Peters et al. 2018).  A model is a folder made by `hf-elmo train-ner` and the like, or by save_pretrained."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.description = DESCRIPTION
    parser.add_argument("models", nargs="+", metavar="[NAME=]FOLDER", help="a model, and what its row is to be called")
    parser.add_argument("--out", type=Path, metavar="FILE", help="a figure to write: .png, .svg or .pdf")


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit status, 2 where the input is at fault."""
    from rich.console import Console

    from hf_elmo.layer_weights import show_layer_weights
    from hf_elmo.tasks.mix_weights import saved_mixes

    try:
        tasks = {}
        for argument in args.models:
            name, equals, folder = argument.partition("=")
            path = Path(folder if equals and not Path(argument).exists() else argument)
            shown = name if path != Path(argument) else path.resolve().name
            for task, weights in saved_mixes(path, shown).items():
                if task in tasks:
                    raise ValueError(f"{argument}: got a second {task!r}; expected NAME=FOLDER to tell them apart.")
                tasks[task] = weights
        if args.out is not None and args.out.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise ValueError(f"--out: got {str(args.out)!r}; expected a name that ends in .png, .svg or .pdf.")
        shown_weights = show_layer_weights(tasks, figure=args.out is not None)
        if shown_weights.figure is not None:
            shown_weights.figure.savefig(args.out)
    except (OSError, ValueError, ImportError) as error:
        print(f"hf-elmo layer-weights: {error}", file=sys.stderr)
        return 2
    Console().print(shown_weights.table)
    return 0
