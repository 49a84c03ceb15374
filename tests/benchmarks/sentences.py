"""Tokenised sentences of a text file, for the benchmarks."""

import argparse
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import spacy

DEFAULT_TEXT = Path(__file__).with_name("text.txt.gz")
# spaCy refuses texts of a million characters; a file without empty lines is read line by line.
_LONGEST_PARAGRAPH = 100_000


def text_file(name: str) -> Path:
    """A file that is there; the type of a command's argument."""
    if not Path(name).is_file():
        raise argparse.ArgumentTypeError(f"got {name}, which is no file; expected UTF-8 text, .txt or .gz")
    return Path(name)


class Text(NamedTuple):
    """The same words as whole paragraphs, and as tokenised sentences."""

    paragraphs: list[str]
    sentences: list[list[str]]

    @property
    def num_words(self) -> int:
        """Of all sentences."""
        return sum(map(len, self.sentences))


def read_text(path: Path, max_words: int, *, skip_words: int = 0) -> Text:
    """spaCy's sentences and words of a text (.txt or .gz), in whole paragraphs, until there are `max_words`.

    Args:
        path: UTF-8, with empty lines between paragraphs.
        max_words: the last paragraph may bring more.
        skip_words: pass over paragraphs from the begin that hold as many.
    """
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    text, skipped = Text([], []), 0
    words = 0
    for doc in nlp.pipe(_paragraphs(path)):
        sentences = [[token.text for token in sentence if not token.is_space] for sentence in doc.sents]
        sentences = [sentence for sentence in sentences if sentence]
        if skipped < skip_words:
            skipped += sum(map(len, sentences))
            continue
        if words >= max_words:
            break
        words += sum(map(len, sentences))
        text.paragraphs.append(doc.text)
        text.sentences.extend(sentences)
    return text


def read_sentences(path: Path, max_words: int) -> list[list[str]]:
    """The sentences of `read_text`."""
    return read_text(path, max_words).sentences


def _paragraphs(path: Path) -> Iterator[str]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    for paragraph in text.split("\n\n"):
        parts = paragraph.splitlines() if len(paragraph) > _LONGEST_PARAGRAPH else [paragraph]
        for part in parts:
            joined = " ".join(part.split())
            if joined:
                yield joined
