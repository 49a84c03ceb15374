"""Words to character ids: what the character CNN reads (Peters et al. 2018, section 3.1).

A word is its UTF-8 bytes between a begin and an end mark, cut or filled to a fixed length. All ids are
shifted by one against the original files, so that 0 is free to say "no word here".
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

NO_WORD = 0
# byte b has the id b + 1: 1..256
BEGIN_SENTENCE = 257
END_SENTENCE = 258
BEGIN_WORD = 259
END_WORD = 260
PAD_CHARACTER = 261

PAD_WORD = "<pad>"
BOS_WORD = "<S>"
EOS_WORD = "</S>"
UNK_WORD = "<UNK>"
_BOUNDARIES = {BOS_WORD: BEGIN_SENTENCE, EOS_WORD: END_SENTENCE}

DEFAULT_MAX_CHARACTERS = 50
_MARKS = 2  # begin and end of a word

Surrogates = Literal["error", "drop"]


def word_to_character_ids(word: str, *, max_characters_per_word: int = DEFAULT_MAX_CHARACTERS) -> list[int]:
    """One word's row of `max_characters_per_word` character ids.

    The row is begin-word, the first `max_characters_per_word - 2` bytes of the word (a character of several
    bytes may be cut in half), end-word, pad characters. The strings `<S>` and `</S>` give the rows of the
    sentence boundaries instead. Errors are those of `words_to_character_ids`.
    """
    rows = words_to_character_ids([word], max_characters_per_word=max_characters_per_word)
    return [int(character) for character in rows[0]]


def words_to_character_ids(
    words: Iterable[str],
    *,
    max_characters_per_word: int = DEFAULT_MAX_CHARACTERS,
    surrogates: Surrogates = "error",
) -> NDArray[np.int64]:
    """The character ids of many words; each distinct word is spelled once.

    `max_characters_per_word` is C, the length of a row, marks included. Words equal to `<S>` or `</S>` give
    the boundary rows; no other string is special. `surrogates="error"` refuses lone surrogates, `"drop"`
    leaves them out, as the original did.

    A word that is not a string is a TypeError, a lone surrogate (which UTF-8 cannot express) a ValueError;
    both name the word and its index.

    Shape:
        words N → (N, C) int64
    """
    check_max_characters(max_characters_per_word)
    if surrogates not in ("error", "drop"):
        raise ValueError(f"surrogates must be 'error' or 'drop', got {surrogates!r}")
    words = _word_list(words)
    place: dict[str, int] = {}
    try:
        index = [place.setdefault(word, len(place)) for word in words]
        rows = _spell(list(place), max_characters_per_word, "strict" if surrogates == "error" else "ignore")
    except (AttributeError, TypeError, UnicodeEncodeError):
        raise bad_word(words, surrogates=surrogates) from None
    for word, mark in _BOUNDARIES.items():
        if word in place:
            rows[place[word]] = [BEGIN_WORD, mark, END_WORD] + [PAD_CHARACTER] * (max_characters_per_word - 3)
    return rows if len(place) == len(words) else rows[index]


def is_cut(word: str, *, max_characters_per_word: int = DEFAULT_MAX_CHARACTERS) -> bool:
    """Whether the word has more UTF-8 bytes than a row can hold, so that its end is not read."""
    if not isinstance(word, str):
        raise TypeError(f"expected a word, got {_shown(word)} ({type(word).__name__})")
    room = max_characters_per_word - _MARKS
    # A code point is one to four bytes: only lengths in between need to be encoded.
    if word in _BOUNDARIES or len(word) * 4 <= room:
        return False
    return len(word) > room or len(word.encode("utf-8", "surrogatepass")) > room


def check_max_characters(max_characters_per_word: int) -> None:
    """Raise unless the row length is an integer with room for the two marks and one byte."""
    if not isinstance(max_characters_per_word, int | np.integer) or isinstance(max_characters_per_word, bool):
        got = f"{max_characters_per_word!r} ({type(max_characters_per_word).__name__})"
        raise TypeError(f"max_characters_per_word must be an integer, got {got}")
    if max_characters_per_word <= _MARKS:
        raise ValueError(
            f"max_characters_per_word must be at least {_MARKS + 1} (begin mark, one byte, end mark), "
            f"got {max_characters_per_word}"
        )


def bad_word(words: Sequence[object], *, where: str = "", surrogates: Surrogates = "error") -> Exception:
    """The exception that names the first word without a spelling, and its index; `where` goes before it."""
    for index, word in enumerate(words):
        if not isinstance(word, str):
            kind = type(word).__name__
            return TypeError(f"{where}word {index} is {_shown(word)} ({kind}), expected a string")
        lone = next((k for k, character in enumerate(word) if "\ud800" <= character <= "\udfff"), None)
        if lone is not None and surrogates == "error":
            return ValueError(
                f"{where}word {index} is {_shown(word)}: the lone surrogate at position {lone} has no "
                "UTF-8 spelling; decode the text with errors='replace', or remove it"
            )
    raise AssertionError(f"asked for the bad word among {len(words)} good ones")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"


def _word_list(words: Iterable[str]) -> list[str]:
    if isinstance(words, str | bytes):
        raise TypeError(f"expected a sequence of words, got the single string {_shown(words)}: put it in a list")
    return words if isinstance(words, list) else list(words)


def _spell(words: list[str], max_characters: int, errors: str) -> NDArray[np.int64]:
    """Rows (N, C) of N words, through one buffer of bytes."""
    room = max_characters - _MARKS
    spellings = [word.encode("utf-8", errors)[:room] for word in words]
    rows = np.full((len(words), max_characters), PAD_CHARACTER, dtype=np.int64)  # (N, C)
    if not words:
        return rows
    rows[:, 0] = BEGIN_WORD
    lengths = np.fromiter(map(len, spellings), dtype=np.int64, count=len(words))  # (N,)
    buffer = b"".join([spelling.ljust(room, b"\0") for spelling in spellings])
    letters = np.frombuffer(buffer, dtype=np.uint8).reshape(len(words), room)  # (N, room)
    np.add(letters, 1, out=rows[:, 1:-1], dtype=np.int64, where=np.arange(room) < lengths[:, None])
    rows[np.arange(len(words)), lengths + 1] = END_WORD
    return rows
