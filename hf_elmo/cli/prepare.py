"""``hf-elmo prepare``: text to tokenised shards and a vocabulary."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

_LAYOUTS = ("auto", "wrapped", "paragraphs", "sentences")

DESCRIPTION = """Tokenises and counts text and writes a folder from which a biLM is pretrained.

A source is [NAME[:LAYOUT][*TIMES]=]LOCATION: a file (plain or .gz), a folder, a glob pattern, a Parquet file, a
dataset (hf://NAME?config=..&split=..&column=..), or the root folder of the 1 Billion Word Benchmark.
Layouts: wrapped (lines broken at a page width, blank lines between paragraphs), paragraphs (one a line),
sentences (one tokenised sentence a line), auto (wrapped or paragraphs, decided for each document).
TIMES: how often an epoch of training reads the source, so that a small one of the right register counts for more."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.description = DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("out", type=Path, help="the folder to make")
    parser.add_argument("--train", nargs="+", required=True, metavar="SOURCE", help="text to train on")
    parser.add_argument(
        "--heldout",
        nargs="+",
        default=[],
        metavar="SOURCE",
        help="text held out; a split of its own for each NAME",
    )
    parser.add_argument(
        "--heldout-share",
        type=float,
        default=0.0,
        metavar="X",
        help="hold out this share of the training documents",
    )
    parser.add_argument(
        "--layout", choices=_LAYOUTS, default="auto", help="layout of sources that name none (%(default)s)"
    )
    parser.add_argument(
        "--document",
        choices=("file", "line"),
        default="file",
        help="what is held out or kept whole (%(default)s)",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--vocab-size", type=int, metavar="V", help="lines of the LM vocabulary, with <S> </S> <UNK>")
    size.add_argument("--min-count", type=int, metavar="N", help="LM vocabulary: words seen at least N times")
    size.add_argument(
        "--vocabulary", type=Path, metavar="FILE", help="keep this vocabulary (of a model to train further)"
    )
    parser.add_argument(
        "--shard-words", type=int, default=1_000_000, metavar="N", help="words in a shard (%(default)s)"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N", help="(%(default)s)")
    parser.add_argument("--language", default="en", help="spaCy's language code for raw text (%(default)s)")
    parser.add_argument("--encoding", default="utf-8", help="(%(default)s)")
    parser.add_argument(
        "--encoding-errors", choices=("strict", "replace", "ignore"), default="strict", help="(%(default)s)"
    )
    parser.add_argument("--column", default="text", help="text column of Parquet files and datasets (%(default)s)")
    parser.add_argument("--max-characters-per-word", type=int, default=50, metavar="C", help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the order of the text in the shards (%(default)s)")
    parser.add_argument("--overwrite", action="store_true", help="replace a prepared folder that is there already")


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit status, 2 where the input is at fault."""
    from hf_elmo.cli.progress import shown_progress
    from hf_elmo.pretraining.corpus import Source
    from hf_elmo.pretraining.prepare import prepare
    from hf_elmo.pretraining.prepare_options import PrepareOptions
    from hf_elmo.pretraining.prepare_report import describe_report

    try:
        options = PrepareOptions(
            vocab_size=args.vocab_size,
            min_count=args.min_count,
            vocabulary=args.vocabulary,
            heldout_share=args.heldout_share,
            document=args.document,
            shard_words=args.shard_words,
            processes=args.processes,
            language=args.language,
            encoding=args.encoding,
            encoding_errors=args.encoding_errors,
            column=args.column,
            max_characters_per_word=args.max_characters_per_word,
            seed=args.seed,
            overwrite=args.overwrite,
        )
        train = [Source.parse(text, layout=args.layout) for text in args.train]
        heldout = [Source.parse(text, layout=args.layout) for text in args.heldout]
        with shown_progress() as progress:
            prepared = prepare(train, args.out, heldout=heldout, options=options, progress=progress)
    except (OSError, ValueError, ImportError) as error:
        print(f"hf-elmo prepare: {error}", file=sys.stderr)
        return 2
    print(describe_report(prepared.report))
    print(f"written to {args.out}")
    return 0
