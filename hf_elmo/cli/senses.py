"""``hf-elmo senses``: the nearest uses of a word in a text, and a map of them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hf_elmo.cli.text_arguments import add_text_arguments, open_text

if TYPE_CHECKING:
    from rich.table import Table

    from hf_elmo.layer_choice import Layers
    from hf_elmo.senses import Neighbours, Use

DESCRIPTION = """Finds the sentences in which a word is used as in others, by the cosine of its vectors in them (table 4
of Peters et al. 2018), and draws a map of all its uses.

The uses to start from are those of --source, a sentence with the word, or else some that differ as much as can be.  The
text may have any size: of a frequent word so many uses as --max-uses are drawn by chance."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.description = DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("word", metavar="WORD", help="as it is written in the text")
    add_text_arguments(parser)
    parser.add_argument(
        "--model",
        default="default",
        metavar="MODEL",
        help='a folder or an id on the Hugging Face Hub, or "default", the package\'s own (%(default)s)',
    )
    parser.add_argument("--revision", help="of a model on the Hub: branch, tag or commit")
    parser.add_argument(
        "--layer", default="top", metavar="LAYER", help="top, token, average, mix, or a number from 0 on (%(default)s)"
    )
    parser.add_argument(
        "--source",
        action="append",
        metavar="SENTENCE",
        help="a sentence with the word, words between spaces; repeatable",
    )
    parser.add_argument("--sources", type=int, default=3, metavar="N", help="where none is given (%(default)s)")
    parser.add_argument("--nearest", type=int, default=3, metavar="N", help="uses shown for each (%(default)s)")
    parser.add_argument("--max-uses", type=int, default=2000, metavar="N", help="uses compared at most (%(default)s)")
    parser.add_argument("--case", action="store_true", help="upper and lower case are different words")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (%(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the map to draw: .png, .svg or .pdf")


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit status, 2 where the input is at fault."""
    try:
        _show(args)
    except (OSError, ValueError, ImportError) as error:
        print(f"hf-elmo senses: {error}", file=sys.stderr)
        return 2
    return 0


def _show(args: argparse.Namespace) -> None:
    from rich.console import Console

    from hf_elmo.embedder import ElmoEmbedder
    from hf_elmo.model_source import load_model
    from hf_elmo.pretraining.learning_curve import FORMATS
    from hf_elmo.senses import different_sources, draw_senses, find_uses, nearest_uses, vectors_of

    for name in ("sources", "nearest"):
        if getattr(args, name) < 1:
            raise ValueError(f"--{name}: got {getattr(args, name)}; expected at least 1.")
    if args.out is not None and args.out.suffix.lower() not in FORMATS:  # said before the work, not after it
        raise ValueError(f"--out: got {str(args.out)!r}; expected a name that ends in {', '.join(FORMATS)}.")
    layers = _layers(args.layer)
    given = [_source(sentence, args.word, ignore_case=not args.case) for sentence in args.source or []]
    text = open_text(args)
    embedder = ElmoEmbedder(load_model(args.model, revision=args.revision))
    found = find_uses(text, args.word, max_uses=args.max_uses, ignore_case=not args.case, seed=args.seed)
    if len(found.uses) < 2:
        raise ValueError(
            f"{args.input}: got {len(found.uses)} uses of {args.word!r}; expected at least 2"
            f"{', written like this; leave out --case to find others' if args.case else ''}."
        )
    uses = [*given, *found.uses]
    vectors = vectors_of(uses, embedder, layers)
    sources = list(range(len(given))) if given else different_sources(vectors, args.sources)
    neighbours = [nearest_uses(uses, vectors, source, count=args.nearest) for source in sources]
    shown = f"all {found.found:,} uses" if found.found == len(found.uses) else f"{len(found.uses):,} of {found.found:,}"
    Console().print(_table(f"“{args.word}”: {shown}, layer {args.layer}", uses, neighbours))
    if args.out is not None:
        draw_senses(args.word, uses, vectors, neighbours, args.out)
        print(f"map written to {args.out}")


def _layers(text: str) -> Layers:
    if text.isdecimal():
        return [int(text)]
    if text not in ("top", "token", "average", "mix"):
        raise ValueError(f"--layer: got {text!r}; expected top, token, average, mix, or a number from 0 on.")
    return text  # type: ignore[return-value]  # one of these


def _source(sentence: str, word: str, *, ignore_case: bool) -> Use:
    from hf_elmo.senses import find_uses

    uses = find_uses([sentence.split()], word, ignore_case=ignore_case).uses
    if not uses:
        raise ValueError(f"--source: got {sentence!r}, which does not have the word {word!r}.")
    return uses[0]._replace(number=0)


def _table(title: str, uses: list[Use], neighbours: list[Neighbours]) -> Table:
    from rich.table import Table
    from rich.text import Text

    def shown(use: Use) -> Text:
        before, word, after = use.around()
        return Text.assemble(f"{before} " if before else "", (word, "bold"), f" {after}" if after else "")

    table = Table(title=title, title_justify="left")
    table.add_column("source")
    table.add_column("nearest uses")
    table.add_column("cosine", justify="right")
    table.add_column("sentence", justify="right")
    for source, nearest, cosines in neighbours:
        for rank, (place, cosine) in enumerate(zip(nearest, cosines, strict=True)):
            first = shown(uses[source]) if rank == 0 else Text("")
            table.add_row(
                first,
                shown(uses[place]),
                f"{cosine:.2f}",
                str(uses[place].number),
                end_section=rank + 1 == len(nearest),
            )
    return table
