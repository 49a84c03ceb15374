"""Arguments of the commands that read sentences."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hf_elmo.text_input import TextInput


def add_text_arguments(parser: argparse.ArgumentParser) -> None:
    """INPUT, and how it is read."""
    parser.add_argument(
        "input",
        metavar="INPUT",
        help="one sentence a line, words between spaces; plain or .gz, or - for standard input",
    )
    parser.add_argument("--raw", action="store_true", help="INPUT is raw text: spaCy finds its words and sentences")
    parser.add_argument("--language", default="en", help="spaCy's language code for raw text (%(default)s)")
    parser.add_argument(
        "--layout",
        choices=("auto", "wrapped", "paragraphs"),
        default="auto",
        help="of raw text: lines broken at a page width and blank lines between paragraphs, or a paragraph a line "
        "(%(default)s)",
    )


def open_text(args: argparse.Namespace) -> TextInput:
    """The sentences of INPUT.

    Raises:
        FileNotFoundError, ImportError, ValueError: as `TextInput`.
    """
    from hf_elmo.text_input import TextInput

    if not args.raw and (args.language != "en" or args.layout != "auto"):
        raise ValueError("--language and --layout: got one without --raw; expected both for raw text only.")
    return TextInput(args.input, raw=args.raw, language=args.language, layout=args.layout)
