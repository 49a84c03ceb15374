"""How fast the embedder is, against the reference's way of running ELMo in plain PyTorch.

    python -m tests.benchmarks.embedding --sizes shipped small --words 4000

The plain loop (`tests/oracles/plain_torch.py`) reads batches of 32 sentences in the order of the text, and so does
the embedder in the columns `batch`; `stream` is `embed_stream` over the whole text. All give every layer. In each
repeat all ways take turns, so that whatever else the machine does falls on all of them; speeds are medians over the
repeats, ratios to the plain loop medians of the repeats' ratios. Each way starts with an empty word cache. Packing
the weights is not counted.

`limit` is the speed at which one product of two 2048 x 2048 matrices runs in the same repeat, spent on the products
that the text needs and on nothing else. With one thread, times are those of the processor, not of the clock.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from hf_elmo import ElmoModel
from hf_elmo.embedder import ElmoEmbedder
from hf_elmo.prepacked_linear import Precision
from tests.benchmarks import models
from tests.benchmarks.sentences import DEFAULT_TEXT, read_sentences
from tests.oracles.plain_torch import PlainTorchElmo

Sentences = list[list[str]]
Way = Callable[[Sentences], list[np.ndarray]]
PLAIN = "plain, batch 32"
BATCH_SIZES = (1, 32, 128)
_SIDE = 2048


def ways(model: ElmoModel, precision: Precision) -> dict[str, Way]:
    """What is compared, each from sentences to all layers."""
    plain = PlainTorchElmo(*models.original_format(model))
    embedders = {name: ElmoEmbedder(model, precision=precision) for name in (*map(str, BATCH_SIZES), "stream")}
    found: dict[str, Way] = {PLAIN: lambda sentences: plain.embed(sentences, batch_size=32)}
    for size in BATCH_SIZES:
        found[f"batch {size}"] = _in_batches(embedders[str(size)], size)
    found["stream"] = lambda sentences: list(_fresh(embedders["stream"]).embed_stream(sentences, layers="all"))
    return found


def _in_batches(embedder: ElmoEmbedder, size: int) -> Way:
    def embed(sentences: Sentences) -> list[np.ndarray]:
        _fresh(embedder)
        batches = (sentences[start : start + size] for start in range(0, len(sentences), size))
        return [vectors for batch in batches for vectors in embedder.embed(batch, layers="all")]

    return embed


def _fresh(embedder: ElmoEmbedder) -> ElmoEmbedder:
    embedder.forget_words()
    return embedder


def measure(name: str, sentences: Sentences, *, repeats: int, clock: Callable[[], float], precision: Precision) -> dict:
    """All ways' speeds on one model."""
    model = models.build(name)
    compared = ways(model, precision)
    expected = compared[PLAIN](sentences[:4])
    difference = 0.0
    for way in compared.values():
        for one, other in zip(way(sentences[:4]), expected, strict=True):
            difference = max(difference, float(np.abs(one - other).max(initial=0.0)))
    words = sum(map(len, sentences))
    speeds: dict[str, list[float]] = {way: [] for way in (*compared, "limit")}
    for _ in range(repeats):
        flops = _sgemm(clock)
        speeds["limit"].append(flops / models.products_per_word(model.config, sentences))
        for way, embed in compared.items():
            begin = clock()
            embed(sentences)
            speeds[way].append(words / (clock() - begin))
    medians = {way: statistics.median(values) for way, values in speeds.items()}
    ratios = {
        way: statistics.median(a / b for a, b in zip(values, speeds[PLAIN], strict=True))
        for way, values in speeds.items()
    }
    share = statistics.median(a / b for a, b in zip(speeds["stream"], speeds["limit"], strict=True))
    return {
        "model": name,
        "words": words,
        "sentences": len(sentences),
        "words_per_second": medians,
        "ratio_to_plain": ratios,
        "share_of_limit": share,
        "largest_difference": difference,
    }


def _sgemm(clock: Callable[[], float]) -> float:
    """Operations per second of a product of two square matrices."""
    a, b = torch.rand(_SIDE, _SIDE), torch.rand(_SIDE, _SIDE)
    begin = clock()
    torch.mm(a, b)
    return 2 * _SIDE**3 / (clock() - begin)


def table(results: list[dict], title: str) -> Table:
    columns = [PLAIN, *(f"batch {size}" for size in BATCH_SIZES), "stream", "limit"]
    shown = Table(title=title)
    for column in ("model", *columns, "stream / limit", "difference"):
        shown.add_column(column, justify="left" if column == "model" else "right")
    for result in results:
        speeds, ratios = result["words_per_second"], result["ratio_to_plain"]
        cells = [f"{speeds[c]:,.0f}" + ("" if c == PLAIN else f" ({ratios[c]:.1f}×)") for c in columns]
        shown.add_row(result["model"], *cells, f"{result['share_of_limit']:.2f}", f"{result['largest_difference']:.0e}")
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, default=DEFAULT_TEXT, help="UTF-8 text, .txt or .gz")
    parser.add_argument("--words", type=int, default=4000, help="how many of its words (default: 4000)")
    parser.add_argument("--sizes", nargs="+", choices=models.NAMES, default=list(models.NAMES), metavar="SIZE")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--precision", choices=("fp32", "bf16", "int8"), default="fp32")
    parser.add_argument("--json", type=Path, default=None, help="also write the figures here")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    clock = time.process_time if arguments.threads == 1 else time.perf_counter
    sentences = read_sentences(arguments.text, arguments.words)
    results = [
        measure(name, sentences, repeats=arguments.repeats, clock=clock, precision=arguments.precision)
        for name in arguments.sizes
    ]
    words, threads = sum(map(len, sentences)), arguments.threads
    title = f"words per second ({arguments.precision}, {words:,} words, {threads} thread{'s' if threads > 1 else ''})"
    Console(width=140).print(table(results, title))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
