"""Tokenised sentences of a text file, for the benchmarks."""

import gzip
import itertools
from pathlib import Path

import spacy

DEFAULT_TEXT = Path(__file__).with_name("text.txt.gz")


def read_sentences(path: Path, max_words: int) -> list[list[str]]:
    """spaCy's sentences and words from the begin of a text (.txt or .gz), whole, until there are `max_words`."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    sentences: list[list[str]] = []
    words = 0
    for sentence in itertools.chain.from_iterable(doc.sents for doc in nlp.pipe(paragraphs)):
        if words >= max_words:
            break
        sentences.append([token.text for token in sentence if not token.is_space])
        words += len(sentences[-1])
    return [sentence for sentence in sentences if sentence]
