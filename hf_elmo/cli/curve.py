"""``hf-elmo curve``: the learning curves of training runs as a figure."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

DESCRIPTION = """Draws the training loss and the held-out perplexity of one run, or of several over each other.  A run
is its folder (while it is still training, as of its last checkpoint), a checkpoint, or a training_log.json."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.description = DESCRIPTION
    parser.add_argument("runs", nargs="+", metavar="[NAME=]RUN", help="a run, and what the legend is to call it")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the figure to write: .png, .svg or .pdf"
    )


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit status, 2 where the input is at fault."""
    from hf_elmo.pretraining.learning_curve import draw_curves, read_curve

    try:
        curves = [read_curve(path, name) for name, path in map(_named, args.runs)]
        draw_curves(curves, args.out)
    except (OSError, ValueError, ImportError) as error:
        print(f"hf-elmo curve: {error}", file=sys.stderr)
        return 2
    print(f"written to {args.out}")
    return 0


def _named(text: str) -> tuple[str | None, Path]:
    """`NAME=RUN`; a path that has a = in it and is there is taken for a path."""
    name, equals, path = text.partition("=")
    if not equals or Path(text).exists():
        return None, Path(text)
    return name, Path(path)
