"""``hf-elmo convert``: weights of the original programs to a model folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

DESCRIPTION = """Turns options.json and weights.hdf5, as AllenNLP and bilm-tf read them, into a folder that
AutoModel.from_pretrained and nlp.add_pipe("elmo", config={"model": ...}) load."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.description = DESCRIPTION
    parser.add_argument("options", type=Path, metavar="OPTIONS.json", help="the model's options")
    parser.add_argument("weights", type=Path, metavar="WEIGHTS.hdf5", help="the model's weights")
    parser.add_argument("out", type=Path, metavar="OUT_DIR", help="the folder to make")
    parser.add_argument(
        "--vocab",
        type=Path,
        metavar="VOCAB.txt",
        help="the words the biLM was trained with, if they are at hand",
    )


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit status, 2 where the input is at fault."""
    from hf_elmo.convert.conversion import convert

    try:
        convert(args.options, args.weights, args.out, vocab_file=args.vocab)
    except (OSError, ValueError, ImportError) as error:
        print(f"hf-elmo convert: {error}", file=sys.stderr)
        return 2
    print(f"written to {args.out}")
    return 0
