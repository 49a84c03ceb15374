"""The vocabulary file: one word a line, `<S>`, `</S>`, `<UNK>` first, then the words by falling frequency.

The order matters: word ids follow it, and the sampler of the softmax takes it for the order of frequency.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hf_elmo.character_ids import BOS_WORD, EOS_WORD, PAD_WORD, UNK_WORD

SPECIAL_WORDS = (BOS_WORD, EOS_WORD, UNK_WORD)
MAXTERMID = "!!!MAXTERMID"


def read_vocabulary(path: str | Path) -> list[str]:
    """The words of a vocabulary file; the line `!!!MAXTERMID`, which closes those of the original, is skipped.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not UTF-8, or see [`check_vocabulary`].
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no vocabulary file {path}; expected one word a line")
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            lines = [line.strip() for line in file]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text (byte {error.start}): {error.reason}") from None
    check_vocabulary(
        (f"{path}, line {number}", word) for number, word in enumerate(lines, start=1) if word != MAXTERMID
    )
    return [word for word in lines if word != MAXTERMID]


def check_vocabulary(entries: Iterable[tuple[str, Any]]) -> None:
    """Check the entries of a vocabulary, each a place to name and a word.

    Raises:
        TypeError: a word that is no string.
        ValueError: the special words are not the first ones; a word that is empty, has white space around it, stands
            twice, or cannot be written as UTF-8.
    """
    seen: dict[str, str] = {}
    begin = f"a vocabulary begins with {', '.join(SPECIAL_WORDS)}"
    for place, word in entries:
        if not isinstance(word, str):
            raise TypeError(f"{place}: got {word!r} ({type(word).__name__}), expected a string")
        if len(seen) < len(SPECIAL_WORDS) and word != SPECIAL_WORDS[len(seen)]:
            expected = SPECIAL_WORDS[len(seen)]
            raise ValueError(f"{place}: got {word!r}, expected {expected!r}: {begin}; {PAD_WORD} is added before them")
        if not word or word != word.strip() or "\n" in word:
            raise ValueError(f"{place}: got {word!r}, expected a word without white space around it; remove it")
        if word in seen or word == PAD_WORD:
            other = f"is already at {seen[word]}" if word in seen else "is added before the first word"
            raise ValueError(f"{place}: got {word!r}, which {other}; remove it")
        if not word.isascii() and any("\ud800" <= character <= "\udfff" for character in word):
            raise ValueError(f"{place}: got {word!r}, a lone surrogate has no UTF-8 spelling; remove it")
        seen[word] = place
    if len(seen) < len(SPECIAL_WORDS):
        raise ValueError(f"the vocabulary ends before {SPECIAL_WORDS[len(seen)]!r}: {begin}")


def write_vocabulary(words: Sequence[str], path: str | Path) -> None:
    """Write one word a line.

    Raises:
        TypeError, ValueError: see [`check_vocabulary`].
    """
    check_vocabulary((f"word {number}", word) for number, word in enumerate(words))
    Path(path).write_bytes("".join(f"{word}\n" for word in words).encode("utf-8"))
