"""``hf-elmo export-hdf5``: a model folder to the files of the original programs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

DESCRIPTION = """Writes options.json and weights.hdf5, as AllenNLP and bilm-tf read them, in float32; beside them
vocab.txt, a language model's softmax (lm_head.hdf5) and a trained scalar mix (scalar_mix.json).  `hf-elmo convert`
reads the folder back bit by bit."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.description = DESCRIPTION
    parser.add_argument("model", type=Path, metavar="DIR", help="folder of a model")
    parser.add_argument("out", type=Path, metavar="OUT_DIR", help="the folder to make")


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit status, 2 where the input is at fault."""
    from hf_elmo.convert.export import export_hdf5

    try:
        notes = export_hdf5(args.model, args.out)
    except (OSError, ValueError, ImportError) as error:
        print(f"hf-elmo export-hdf5: {error}", file=sys.stderr)
        return 2
    for note in notes:
        print(note)
    print(f"written to {args.out}")
    return 0
