"""How closely ElmoTokenizer splits raw text as spaCy's `blank("en")` does, and how fast.

    python tests/benchmarks/tokenizer_agreement.py FILE...

Sentences are spaCy's own (`sentencizer`) within paragraphs, which blank lines separate; its white space
tokens are left out. `F1` compares tokens by where they begin and end, `same` is the share of sentences
without a difference.
"""

import argparse
import gzip
import random
import re
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import spacy
from spacy.language import Language

from hf_elmo.english_splitting import english_splitting
from hf_elmo.tokenization_elmo import ElmoTokenizer

Spans = set[tuple[int, int]]


@dataclass
class Agreement:
    """Counts over sentences, and the seconds each tokenizer took."""

    sentences: int = 0
    same: int = 0
    ours: int = 0
    theirs: int = 0
    common: int = 0
    our_seconds: float = 0.0
    their_seconds: float = 0.0
    differences: Counter[tuple[str, str]] = field(default_factory=Counter)  # (spaCy's, ours)

    @property
    def f1(self) -> float:
        return 2 * self.common / max(1, self.ours + self.theirs)

    @property
    def share_same(self) -> float:
        return self.same / max(1, self.sentences)

    def add_sentence(self, text: str, ours: Spans, theirs: Spans) -> None:
        self.sentences += 1
        self.same += ours == theirs
        self.ours += len(ours)
        self.theirs += len(theirs)
        self.common += len(ours & theirs)
        for run in re.finditer(r"\S+", text) if ours != theirs else ():
            their_words, our_words = _words(text, theirs, run), _words(text, ours, run)
            self.differences[their_words, our_words] += their_words != our_words

    def add(self, other: "Agreement") -> None:
        for name in ("sentences", "same", "ours", "theirs", "common", "our_seconds", "their_seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.differences.update(other.differences)


def _words(text: str, spans: Spans, run: re.Match[str]) -> str:
    return " ".join(text[start:end] for start, end in sorted(spans) if run.start() <= start < run.end())


def measure(paragraphs: Iterable[str], nlp: Language) -> Agreement:
    """Compare the two on every sentence; `nlp` sets sentence boundaries."""
    agreement = Agreement()
    splitting = ElmoTokenizer().backend_tokenizer.pre_tokenizer
    for paragraph in paragraphs:
        begin = time.perf_counter()
        spans = [span for _, span in splitting.pre_tokenize_str(paragraph)]
        middle = time.perf_counter()
        doc = nlp.make_doc(paragraph)
        agreement.their_seconds += time.perf_counter() - middle
        agreement.our_seconds += middle - begin
        for name, pipe in nlp.pipeline:
            assert name == "sentencizer", "only the sentencizer may follow the tokenizer"
            doc = pipe(doc)
        starts = [start for start, _ in spans]
        for sentence in doc.sents:
            first, last = sentence.start_char, sentence.end_char
            theirs = {(t.idx - first, t.idx - first + len(t)) for t in sentence if not t.is_space}
            inside = spans[bisect_left(starts, first) : bisect_left(starts, last)]
            ours = {(start - first, end - first) for start, end in inside}
            if theirs:
                agreement.add_sentence(sentence.text, ours, theirs)
    return agreement


def read_paragraphs(path: Path) -> list[str]:
    """Paragraphs of a text file, which may be packed with gzip."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", errors="replace")
    return [paragraph for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="UTF-8 text, .txt or .gz")
    parser.add_argument("--paragraphs", type=int, default=None, help="random paragraphs per file (default: all)")
    parser.add_argument("--differences", type=int, default=0, help="also print the N most frequent differences")
    arguments = parser.parse_args()
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.max_length = 10**9
    english_splitting()
    total = Agreement()
    columns = f"{'sentences':>10} {'words':>10} {'F1':>9} {'same':>9} {'words/s':>9} {'spaCy':>9}"
    print(f"{'file':<44} {columns}")
    for path in arguments.files:
        paragraphs = read_paragraphs(path)
        if arguments.paragraphs is not None and arguments.paragraphs < len(paragraphs):
            paragraphs = random.Random(0).sample(paragraphs, arguments.paragraphs)
        agreement = measure(paragraphs, nlp)
        total.add(agreement)
        if len(arguments.files) <= 30:
            print(_row(path.name[:44], agreement))
    print(_row(f"all ({len(arguments.files)} files)", total))
    for (theirs, ours), count in (+total.differences).most_common(arguments.differences):
        print(f"{count:>7}  spaCy: {theirs}    here: {ours}")


def _row(name: str, a: Agreement) -> str:
    speeds = f"{a.ours / max(a.our_seconds, 1e-9):>9.0f} {a.theirs / max(a.their_seconds, 1e-9):>9.0f}"
    return f"{name:<44} {a.sentences:>10} {a.theirs:>10} {a.f1:>9.5f} {a.share_same:>9.5f} {speeds}"


if __name__ == "__main__":
    main()
