"""``hf-elmo embed``: the vectors of a text to a file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_elmo.cli.text_arguments import add_text_arguments, open_text

if TYPE_CHECKING:
    from hf_elmo.dump import Dumped

DESCRIPTION = """Computes the vectors of every word of INPUT and writes them to FILE: HDF5 in the layout of AllenNLP's
elmo command (.hdf5, .h5), Parquet (.parquet), or a folder of safetensors shards (no suffix).

Memory is that of one part, whatever INPUT's size.  Nothing stands under FILE's name before it is complete; a run that
was broken off is continued by the same command with --resume."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.description = DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_text_arguments(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file, or the folder, to make")
    parser.add_argument(
        "--model",
        default="default",
        metavar="MODEL",
        help='a folder or an id on the Hugging Face Hub, or "default", the package\'s own (%(default)s)',
    )
    parser.add_argument("--revision", help="of a model on the Hub: branch, tag or commit")
    parser.add_argument(
        "--layers",
        default="mix",
        metavar="LAYERS",
        help="all, top, average, mix (the model's scalar mix), or numbers from 0 (token layer) on: 0,2 (%(default)s)",
    )
    parser.add_argument("--dtype", choices=("float32", "float16"), default="float32", help="as stored (%(default)s)")
    parser.add_argument("--format", choices=("hdf5", "safetensors", "parquet"), help="where FILE's suffix says nothing")
    parser.add_argument(
        "--part-megabytes",
        type=float,
        default=128,
        metavar="MB",
        help="of a shard or row group; a killed run loses no more (%(default)s)",
    )
    parser.add_argument("--batch-words", type=int, default=4096, metavar="N", help="positions of a batch (%(default)s)")
    parser.add_argument("--device", help="such as cpu or cuda (default: a GPU where there is one)")
    parser.add_argument("--engine", choices=("local", "ray"), default="local", help="who computes (%(default)s)")
    parser.add_argument("--workers", type=int, metavar="N", help="processes of Ray (default: one a GPU, or a CPU core)")
    parser.add_argument("--forget-sentences", action="store_true", help="write no sentence_to_index into an HDF5 file")
    parser.add_argument("--resume", action="store_true", help="continue a run that was broken off, if there is one")
    parser.add_argument("--overwrite", action="store_true", help="replace what is there already")


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit status, 2 where the input is at fault."""
    try:
        dumped = _dump(args)
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        print(f"hf-elmo embed: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("hf-elmo embed: interrupted; go on with --resume", file=sys.stderr)
        return 130
    if dumped.cut_words:
        print(f"{dumped.cut_words:,} words have more bytes than the model reads: their ends do not count")
    done = "was complete already in" if dumped.was_complete else "written to"
    print(f"{dumped.sentences:,} sentences, {dumped.words:,} words {done} {args.out}")
    return 0


def _dump(args: argparse.Namespace) -> Dumped:
    from hf_elmo.cli.progress import shown_progress
    from hf_elmo.dump import DumpOptions, dump
    from hf_elmo.dump.layers import parse_layers
    from hf_elmo.model_source import load_model

    options = DumpOptions(
        layers=parse_layers(args.layers),
        dtype=args.dtype,
        format=args.format,
        part_megabytes=args.part_megabytes,
        max_words_per_batch=args.batch_words,
        device=args.device,
        engine=args.engine,
        workers=args.workers,
        with_sentences=not args.forget_sentences,
        resume=args.resume,
        overwrite=args.overwrite,
    )
    sentences = open_text(args)
    model: Any = args.model if args.revision is None else load_model(args.model, revision=args.revision)
    with shown_progress() as progress:
        return dump(sentences, args.out, model=model, options=options, progress=progress)
