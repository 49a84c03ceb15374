"""How much memory an embedder takes on a long stream, and on a long sentence.

    python -m tests.benchmarks.memory

Vectors are let go of as they come. Every eighth word of the stream is one that was not seen before, so that the word
cache fills up: it holds 32,768 words, which the first 262,144 words of the stream bring. Each line is the peak of the
process up to there; the long sentence has a process of its own, and its own vectors are told apart.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from hf_elmo.embedder import ElmoEmbedder
from hf_elmo.model_source import load_model
from tests.benchmarks import models
from tests.benchmarks.fresh_process import peak_bytes
from tests.benchmarks.sentences import DEFAULT_TEXT, read_sentences, text_file

_NEW_EVERY = 8
_REPOSITORY = Path(__file__).parents[2]


def stream(sentences: Sequence[Sequence[str]], num_words: int) -> Iterator[list[str]]:
    """Sentences over and over, with new words among theirs, until there are as many words."""
    number = 0
    for sentence in itertools.cycle(sentences):
        if number >= num_words:
            return
        numbers = range(number, number + len(sentence))
        yield [f"{word}{n}" if n % _NEW_EVERY == 0 else word for word, n in zip(sentence, numbers, strict=True)]
        number += len(sentence)


def peaks_of_stream(embedder: ElmoEmbedder, sentences: Sequence[Sequence[str]], marks: Sequence[int]) -> dict[int, int]:
    """Peak bytes of this process when so many words of a stream are embedded."""
    peaks: dict[int, int] = {}
    words, left = 0, sorted(marks)
    for vectors in embedder.embed_stream(stream(sentences, left[-1]), layers="all"):
        words += vectors.shape[1]
        while left and words >= left[0]:
            peaks[left.pop(0)] = peak_bytes()
    return peaks


def peaks_of_sentence(embedder: ElmoEmbedder, sentences: Sequence[Sequence[str]], num_words: int) -> dict[str, int]:
    """Peak bytes of this process before and after one sentence of so many words, and the bytes of its vectors."""
    embedder.embed(sentences[:20])
    before = peak_bytes()
    words = list(itertools.chain.from_iterable(stream(sentences, num_words)))[:num_words]
    (vectors,) = embedder.embed([words], layers="all")
    return {"before": before, "after": peak_bytes(), "vectors": vectors.nbytes}


def in_fresh_process(arguments: Sequence[str]) -> dict[str, int]:
    """The same command with `--only`, by itself."""
    command = [sys.executable, "-m", "tests.benchmarks.memory", *arguments]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, cwd=_REPOSITORY, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return figures


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    command = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    command.add_argument("--size", default="shipped", help=f"of {', '.join(models.NAMES)}, or a folder (%(default)s)")
    command.add_argument("--text", type=text_file, default=DEFAULT_TEXT, help="UTF-8 text, .txt or .gz")
    command.add_argument("--stream", type=int, nargs="+", default=[100_000, 300_000, 1_000_000], metavar="WORDS")
    command.add_argument("--sentence", type=int, default=50_000, metavar="WORDS")
    command.add_argument("--threads", type=int, default=1)
    command.add_argument("--only", choices=("stream", "sentence"), help="print one measurement as JSON")
    return command


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    options = parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    if options.only is None:
        show(*(in_fresh_process([*arguments, "--only", what]) for what in ("stream", "sentence")), options.sentence)
        return
    known = (*models.NAMES, "tiny")
    embedder = ElmoEmbedder(models.build(options.size) if options.size in known else load_model(options.size))
    sentences = read_sentences(options.text, 20_000)
    if options.only == "stream":
        print(json.dumps(peaks_of_stream(embedder, sentences, options.stream)))
    else:
        print(json.dumps(peaks_of_sentence(embedder, sentences, options.sentence)))


def show(of_stream: dict[str, int], of_sentence: dict[str, int], num_words: int) -> None:
    """Print the table."""
    shown = Table(title="peak memory, MiB")
    shown.add_column("read")
    shown.add_column("peak", justify="right")
    for words, peak in of_stream.items():
        shown.add_row(f"{int(words):,} words of a stream", f"{peak / 2**20:,.0f}")
    shown.add_section()
    shown.add_row("20 sentences", f"{of_sentence['before'] / 2**20:,.0f}")
    shown.add_row(f"and one of {num_words:,} words", f"{of_sentence['after'] / 2**20:,.0f}")
    shown.add_row("of which vectors returned", f"{of_sentence['vectors'] / 2**20:,.0f}")
    Console(width=100).print(shown)


if __name__ == "__main__":
    main()
