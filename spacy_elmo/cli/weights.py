"""``python -m spacy_elmo weights``: what a trained pipeline has learnt of the layers."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.add_argument("model", metavar="MODEL_DIR", help="the folder or package of a pipeline")
    parser.add_argument("--out", type=Path, metavar="weights.png", help="also draw a figure (png, svg or pdf)")


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit status."""
    import spacy
    from rich.console import Console

    from hf_elmo.layer_weights import show_layer_weights
    from spacy_elmo.layer_weights import learnt_layer_weights

    tasks = learnt_layer_weights(spacy.load(args.model))
    if not tasks:
        raise ValueError(f"{args.model}: got a pipeline without a scalar mix; expected one that was trained on ELMo.")
    shown = show_layer_weights(tasks, figure=args.out is not None)
    Console(highlight=False).print(shown.table)
    if shown.figure is not None:
        shown.figure.savefig(args.out)
        print(f"written to {args.out}")
    return 0
