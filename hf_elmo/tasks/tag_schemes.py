"""Tags of spans: IOB1, BIO (IOB2), BIOES and BILOU, read alike, written as BIO or BIOES."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, get_args

Scheme = Literal["bio", "bioes"]
OUTSIDE = "O"
_PREFIXES = frozenset("BIESLUM")
# A word with one of these begins a span, or ends one, whatever stands beside it.
_BEGINS, _ENDS = frozenset("BSU"), frozenset("ESLU")


class Span(NamedTuple):
    """Words `start` to `end`, the last not counted, and what they are."""

    type: str
    start: int
    end: int


def are_spans(tags: Iterable[str]) -> bool:
    """Whether these are tags of spans: `O`, or a prefix such as `B-` before a type, and not all of them `O`."""
    others = set(tags) - {OUTSIDE}
    return bool(others) and all(tag[1:2] == "-" and tag[0] in _PREFIXES and len(tag) > 2 for tag in others)


def spans(tags: Sequence[str]) -> list[Span]:
    """The spans of a sentence, by the rules of the CoNLL-2003 evaluation.

    A span begins at `B-`, `S-`, `U-`, where the type changes, or after the end of another; `I-` begins one after `O`,
    as IOB1 has it.
    """
    found: list[Span] = []
    before, start = OUTSIDE, 0
    for place, tag in enumerate([*tags, OUTSIDE]):
        open_before = before != OUTSIDE
        goes_on = open_before and tag[2:] == before[2:] and tag != OUTSIDE
        goes_on = goes_on and tag[0] not in _BEGINS and before[0] not in _ENDS
        if not goes_on:
            if open_before:
                found.append(Span(before[2:], start, place))
            start = place
        before = tag
    return found


def with_scheme(tags: Sequence[str], scheme: Scheme) -> list[str]:
    """The same spans in another scheme.

    Raises:
        ValueError: an unknown scheme.
    """
    if scheme not in get_args(Scheme):
        raise ValueError(f"scheme: got {scheme!r}; expected one of {', '.join(get_args(Scheme))}.")
    written = [OUTSIDE] * len(tags)
    for kind, start, end in spans(tags):
        written[start:end] = [f"I-{kind}"] * (end - start)
        if scheme == "bioes":
            written[end - 1] = f"E-{kind}"
        written[start] = f"S-{kind}" if scheme == "bioes" and end - start == 1 else f"B-{kind}"
    return written
