"""``hf-elmo score``: how likely a language model finds each word, and what could stand in its place."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from hf_elmo.cli.text_arguments import add_text_arguments, open_text
from hf_elmo.new_file import new_file

if TYPE_CHECKING:
    from hf_elmo.score import Totals

DESCRIPTION = """Writes the natural logarithm of each word's probability given the words before it (forward) and given
those after it (backward), by the model's full softmax.

Each sentence is read by itself.  Forward, </S> is predicted after the last word; backward, <S> before the first; both
count in sums and perplexities.  Words outside the vocabulary are scored as <UNK> and marked (known = 0).  Empty lines
keep their number and predict nothing.

With --substitutes: the words with the highest forward + backward log-probability in each word's place."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.description = DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_text_arguments(parser)
    parser.add_argument(
        "--model",
        default="default",
        metavar="MODEL",
        help='a folder or an id on the Hugging Face Hub, with its softmax, or "default", the package\'s own',
    )
    parser.add_argument("--revision", help="of a model on the Hub: branch, tag or commit")
    parser.add_argument("--out", type=Path, metavar="FILE", help="(default: standard output)")
    parser.add_argument("--format", choices=("tsv", "jsonl"), default="tsv", help="of the output (%(default)s)")
    parser.add_argument(
        "--by",
        choices=("word", "sentence"),
        default="word",
        help="a TSV row, or a JSON list's number, each (%(default)s)",
    )
    parser.add_argument("--substitutes", type=int, metavar="N", help="the N best for each word")
    parser.add_argument(
        "--word", metavar="WORD", help="substitutes of this word alone: its index from 0 on, or the word ('\"7\"')"
    )
    parser.add_argument(
        "--minus-unigram",
        type=float,
        default=0.0,
        metavar="WEIGHT",
        help="take away so much of a substitute's log-frequency, estimated by its rank (%(default)s)",
    )
    parser.add_argument("--batch-words", type=int, default=4096, metavar="N", help="positions of a batch (%(default)s)")
    parser.add_argument("--device", help="such as cpu or cuda (default: a GPU where there is one)")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it is there already")


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit status, 2 where the input is at fault."""
    try:
        totals = _score(args)
        perplexity = None if totals is None else totals.perplexity
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, ValueError, ImportError) as error:
        print(f"hf-elmo score: {error}", file=sys.stderr)
        return 2
    if totals is not None and perplexity is not None:
        print(
            f"{totals.sentences:,} sentences, {totals.words:,} words, {totals.unknown_words:,} of them outside the "
            f"vocabulary; perplexity forward {perplexity.forward:.2f}, backward {perplexity.backward:.2f}, average "
            f"{perplexity.average:.2f} over {totals.predictions:,} predictions each",
            file=sys.stderr,
        )
    return 0


def _score(args: argparse.Namespace) -> Totals | None:
    import torch

    from hf_elmo.language_model import load_language_model
    from hf_elmo.score import Totals, score
    from hf_elmo.score_tables import score_lines, substitute_lines

    if args.substitutes is None and (args.word is not None or args.minus_unigram):
        raise ValueError("--word and --minus-unigram: got one without --substitutes; expected both with it only.")
    if args.out is not None and args.out.exists() and not args.overwrite:
        raise FileExistsError(f"{args.out}: is there already; choose another name, or replace it with --overwrite.")
    text = open_text(args)
    model, tokenizer = load_language_model(args.model, revision=args.revision)
    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.nn.Module.to(model, torch.device(device))
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"--device: got {device!r}, which cannot be used here: {error}") from error
    if args.substitutes is not None:
        lines = substitute_lines(
            model,
            tokenizer,
            text,
            top=args.substitutes,
            word=args.word,
            unigram_weight=args.minus_unigram,
            format=args.format,
        )
        _write(args.out, lines)
        return None
    totals = Totals()
    scores = score(model, tokenizer, text, max_words_per_batch=args.batch_words)
    _write(args.out, score_lines(scores, totals, format=args.format, by=args.by))
    return totals


def _write(out: Path | None, lines: Iterable[str]) -> None:
    with _opened(out) as file:
        for line in lines:
            file.write(f"{line}\n")
        file.flush()


@contextmanager
def _opened(out: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that takes its place when it is complete."""
    if out is None:
        yield sys.stdout
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    with new_file(out) as beside, beside.open("w", encoding="utf-8", newline="\n") as file:
        yield file
