"""``hf-elmo convert``: weights of the original programs to a model folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

FORMATS = ("hdf5", "tensorflow", "state-dict")
DESCRIPTION = """Turns weights of AllenNLP and bilm-tf into a folder that AutoModel.from_pretrained and
nlp.add_pipe("elmo", config={"model": ...}) load.

SOURCE is a folder, a zip or tar archive, or files, in any order:
  options.json weights.hdf5       weights as AllenNLP and bilm-tf read them
  archive.zip                     the same and vocab.txt in one archive, as in the NLPL repository
  FOLDER/model.ckpt               a training checkpoint of bilm-tf (needs tensorflow)
  model.tar.gz, or weights.th     a model that AllenNLP trained, with its ELMo inside"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.description = DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("sources", type=Path, nargs="+", metavar="SOURCE", help="what to convert, see above")
    parser.add_argument("out", type=Path, metavar="OUT_DIR", help="the folder to make")
    parser.add_argument(
        "--vocab",
        type=Path,
        metavar="VOCAB.txt",
        help="the words the biLM was trained with, if they are at hand",
    )
    parser.add_argument("--format", choices=FORMATS, help="of the weights, where SOURCE leaves a choice")
    parser.add_argument("--without-head", action="store_true", help="leave out the softmax, which vectors do not need")
    parser.add_argument(
        "--prefix", metavar="NAME", help="of a state dict with several ELMos: how the names of the wanted one begin"
    )
    parser.add_argument(
        "--scalar-mix", type=int, metavar="N", help="of a state dict with several scalar mixes: the model's (first)"
    )


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit status, 2 where the input is at fault."""
    from hf_elmo.convert.conversion import convert

    try:
        done = convert(
            *args.sources,
            args.out,
            vocab_file=args.vocab,
            format=args.format,
            with_head=not args.without_head,
            prefix=args.prefix,
            scalar_mix=args.scalar_mix,
        )
    except (OSError, ValueError, ImportError) as error:
        print(f"hf-elmo convert: {error}", file=sys.stderr)
        return 2
    for note in done.notes:
        print(note)
    print(f"written to {args.out}")
    return 0
