"""``hf-elmo publish``: the folder of a training run to a model folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

DESCRIPTION = """Writes the model, the tokenizer and the model card of a training run, or of one of its checkpoints,
to a folder of their own, without what only training needs."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.description = DESCRIPTION
    parser.add_argument("run_dir", type=Path, metavar="RUN_DIR", help="folder of the run, or of a checkpoint")
    parser.add_argument("out", type=Path, metavar="OUT_DIR", help="the folder to make")
    parser.add_argument(
        "--dtype",
        choices=("float16", "float32"),
        default="float16",
        help="how weights are stored; they are always loaded in float32 (%(default)s)",
    )
    parser.add_argument(
        "--with-lm-head", action="store_true", help="keep the softmax, for perplexity and further pretraining"
    )


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit status, 2 where the input is at fault."""
    from hf_elmo.pretraining.publish import publish

    try:
        publish(args.run_dir, args.out, dtype=args.dtype, with_lm_head=args.with_lm_head)
    except (OSError, ValueError) as error:
        print(f"hf-elmo publish: {error}", file=sys.stderr)
        return 2
    print(f"written to {args.out}")
    return 0
