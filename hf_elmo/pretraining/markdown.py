"""Tables and paragraphs of a model card."""

from __future__ import annotations

from collections.abc import Sequence


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose cells hold no Markdown."""
    lines = [header, ("---",) * len(header), *rows]
    return marked("\n".join(f"| {' | '.join(line)} |" for line in lines))


def marked(text: str) -> str:
    """Special words as code, so that Markdown does not take them for HTML, and a footnote's star as a star."""
    for word in ("<UNK>", "</S>", "<S>"):
        text = text.replace(word, f"`{word}`")
    return text.replace("*", r"\*")
