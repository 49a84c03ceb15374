"""What a terminal shows of ELMo: one word, several sentences, and how similar its vectors are.

A static vector, one for each word, gives 1.00 for every pair; the table shows what the context adds.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from spacy_elmo.cli.main import list_of_commands

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Token

DEMO_TEXTS = (
    "The dog let out a sharp bark .",
    "The hound answered with a loud bark .",
    "The bark of the old oak was rough and wet .",
    "The bark of this tree is used in medicine .",
    "The bank lent him the money .",
    "The bank raised its rates on all loans .",
    "They sat on the bank of the river .",
    "Willows grew along the bank of the stream .",
)
DEMO_WORDS = ("bark", "bank")

_MOST_WORDS = 4
_MOST_OCCURRENCES = 8
# In columns of the terminal:
_LEAST_CONTEXT = 16
_COSINE_WIDTH = 8
_BESIDE_COSINES = _LEAST_CONTEXT + 17


def main(argv: Sequence[str] | None = None, *, console: Console | None = None) -> int:
    """Run the demonstration.

    Returns:
        0, or 1 where there is nothing to compare or no model (the reason is printed)
    """
    arguments = _parser().parse_args(argv)
    if console is None:
        _never_fail_on_a_letter()
        console = Console(highlight=False)
    try:
        docs = list(_pipeline(arguments.model).pipe(arguments.texts or DEMO_TEXTS))
    except (OSError, ValueError) as error:
        console.print(Text(f"spacy_elmo: {error}"))
        return 1
    words = [word.lower() for word in arguments.word]
    if not words:
        words = repeated_words(docs) if arguments.texts else list(DEMO_WORDS)
    shown = 0
    for word in words[:_MOST_WORDS]:
        occurrences = _occurrences(docs, word)
        if len(occurrences) > 1:
            _print_word(console, word, occurrences)
            shown += 1
        else:
            console.print(Text(f"{word!r}: found {len(occurrences)} time(s); at least two are needed to compare.\n"))
    if words[_MOST_WORDS:]:
        console.print(Text(f"Also repeated: {', '.join(words[_MOST_WORDS:])}. Choose one with --word."))
    if not words:
        _print_nothing_repeated(console, len(docs))
    return 0 if shown else 1


def repeated_words(docs: Iterable["Doc"]) -> list[str]:
    """The lower-case words that occur more than once, most frequent first.

    Words that every text repeats ("the", "of") count only where nothing else is repeated.
    """
    counts: dict[str, int] = {}
    common: set[str] = set()
    for token in (token for doc in docs for token in doc if token.is_alpha):
        counts[token.lower_] = counts.get(token.lower_, 0) + 1
        if token.is_stop:
            common.add(token.lower_)
    repeated = sorted((word for word, count in counts.items() if count > 1), key=lambda word: -counts[word])
    return [word for word in repeated if word not in common] or repeated


def similarity_table(word: str, occurrences: Sequence["Token"]) -> Table:
    """Pairwise cosines of one word's vectors, beside what a static vector gives.

    Args:
        word: for the title.
        occurrences: its tokens, each in a doc with sentences and ELMo's vectors.
    """
    title = Text(f'"{word}", {len(occurrences)} occurrences', style="bold")
    table = Table(title=title, title_justify="left")
    table.add_column("", justify="right", style="dim", no_wrap=True)
    table.add_column("sentence", min_width=_LEAST_CONTEXT)  # the one that gives way in a narrow terminal
    for number in range(1, len(occurrences) + 1):
        table.add_column(str(number), justify="right", no_wrap=True)
    table.add_column("static", justify="right", style="dim", no_wrap=True)
    for row, token in enumerate(occurrences):
        cosines = [token.similarity(other) for other in occurrences]
        nearest = max(cosine for column, cosine in enumerate(cosines) if column != row)
        cells = [_cell(cosine, nearest=cosine == nearest, itself=i == row) for i, cosine in enumerate(cosines)]
        table.add_row(str(row + 1), WordInContext(token), *cells, "1.00")
    return table


class WordInContext:
    """A token in its sentence, for rich: cut on either side to the space there is, with the word marked."""

    def __init__(self, token: "Token") -> None:
        sentence = token.sent
        start = token.idx - sentence.start_char
        self.word = token.text
        self.before, self.after = (
            re.sub(r"\s+", " ", part) for part in (sentence.text[:start], sentence.text[start + len(token) :])
        )

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        whole = cell_len(self.before + self.word + self.after)
        return Measurement(min(whole, _LEAST_CONTEXT), whole)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        spare = max(0, options.max_width - cell_len(self.word))
        before = _cut(self.before[::-1], max(spare // 2, spare - cell_len(self.after)))[::-1]
        after = _cut(self.after, spare - cell_len(before))
        yield Text.assemble(before, (self.word, "bold cyan"), after, no_wrap=True, overflow="ellipsis")


def _cut(text: str, room: int) -> str:
    return text if cell_len(text) <= room else set_cell_size(text, max(0, room - 1)) + "…" * (room > 0)


def _cell(cosine: float, *, nearest: bool, itself: bool) -> Text:
    if itself:
        return Text(f"{cosine:.2f} ", style="dim")
    return Text(f"{cosine:.2f}*", style="bold green") if nearest else Text(f"{cosine:.2f} ")


def _print_word(console: Console, word: str, occurrences: Sequence["Token"]) -> None:
    most = min(_MOST_OCCURRENCES, max(2, (console.width - _BESIDE_COSINES) // _COSINE_WIDTH))
    console.print(similarity_table(word, occurrences[:most]))
    if len(occurrences) > most:
        console.print(f"Not shown in so narrow a terminal: {len(occurrences) - most} more.")
    console.print(
        "Cosine of the two vectors; * marks each row's nearest. A static vector is the same in every sentence: 1.00.\n"
    )


def _print_nothing_repeated(console: Console, count: int) -> None:
    texts = "the text" if count == 1 else f"the {count} texts"
    console.print(
        Text(
            f"No word occurs twice in {texts}: there is nothing to compare. Give texts that share a word:\n\n"
            '  python -m spacy_elmo "He sat on the bank of the river ." "He robbed the bank ."\n\n'
            'Without a text this command compares "bark" and "bank" in sentences of its own.'
        )
    )


def _occurrences(docs: Iterable["Doc"], word: str) -> list["Token"]:
    return [token for doc in docs for token in doc if token.lower_ == word]


def _pipeline(model: str | None) -> "Language":
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("elmo", config={"model": model})
    return nlp


def _never_fail_on_a_letter() -> None:
    """A terminal that cannot show a letter shows “?” instead of a traceback."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m spacy_elmo",
        description="Show how similar ELMo's vectors of one word are in different sentences.",
        epilog=list_of_commands(),
    )
    parser.add_argument(
        "texts",
        nargs="*",
        metavar="text",
        help='texts that share a word; without any, "bark" and "bank" are shown',
    )
    parser.add_argument("--word", action="append", default=[], help="compare this word only; may be repeated")
    parser.add_argument("--model", help="folder or Hub id of an ELMo; the model shipped with hf_elmo by default")
    return parser
