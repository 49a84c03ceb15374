"""How fast ELMo is here: beside the original's way, the machine's limits, and two transformers.

    python -m tests.benchmarks.embedding --threads 2

For every size of model, words per second of

    plain          the original's way in plain PyTorch (tests/oracles/plain_torch.py), on 32 sentences as they come
    batch-1        `ElmoEmbedder.embed` of one sentence after the other
    batch-32, -128 the same of as many sentences, as they come
    stream         `ElmoEmbedder.embed_stream` over the whole text
    second-pass    the stream once more, all its words being remembered
    bf16, int8     the stream in other precisions
    nlp.pipe       raw text through spaCy: tokenizer, sentencizer, `elmo`; spaCy's words, which are its tokens
    gpu-...        the stream on a GPU, where there is one; unfused, with PyTorch's kernels for the cell of a step

The first two read every fourth sentence. All but nlp.pipe, which gives the scalar mix, give every layer. In each
repeat all ways take turns, so that whatever else the machine does falls on all of them; figures are medians over the
repeats, ratios medians of the repeats' ratios. Each way starts with an empty word cache; packing the weights is not
counted.

Two limits are measured in every repeat: `sgemm`, the speed of a product of two 2048 x 2048 matrices, spent on the
products that the text needs and nothing else; and, of single sentences, `memory`, the speed at which memory is read,
spent on the weights that each word needs (see limits.py). A model that the processor's cache holds is not bound by it.

BERT-base and DistilBERT of transformers have random weights, and give their last layer (see encoders.py). Imports,
loading and peak memory are measured in fresh processes. With one thread, times are those of the processor, not of the
clock.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from hf_elmo import ElmoModel
from tests.benchmarks import costs, encoders, limits, models
from tests.benchmarks.limits import Clock
from tests.benchmarks.sentences import DEFAULT_TEXT, Text, read_text, text_file
from tests.benchmarks.ways import (
    ALONE,
    EXACT,
    NAMES,
    PIPE,
    PLAIN,
    ROUNDED,
    SECOND_PASS,
    STREAM,
    NotHereError,
    Way,
    every_fourth,
    token_layer_times,
    way,
)

ENCODERS, COSTS = "encoders", "costs"
ROWS = (*NAMES, ENCODERS, COSTS)
# Of the vectors of the first few sentences.
_COMPARED = 4


def measure_model(name: str, text: Text, *, rows: Sequence[str], repeats: int, clock: Clock) -> dict[str, Any]:
    """All ways' speeds on one model.

    Returns:
        `words_per_second` and the limits', `ratios` to others, `notes` by way.
    """
    model = models.build(name)
    with tempfile.TemporaryDirectory() as folder:
        if PIPE in rows:
            model.save_pretrained(folder)
        compared, notes = _possible(rows, model, Path(folder))
        speeds, seconds = _speeds(compared, model, text, repeats=repeats, clock=clock, notes=notes)
    if PLAIN in compared and STREAM in compared:
        notes[STREAM] = f"largest difference from plain {_difference(compared, text):.0e}"
    if ALONE in compared:
        number = len(every_fourth(text).sentences)
        notes[ALONE] = f"{statistics.median(seconds[ALONE]) / number * 1000:,.1f} ms a sentence"
    return {
        "model": name,
        "words_per_second": {row: statistics.median(found) for row, found in speeds.items()},
        "ratio_to_plain": _ratios(speeds, PLAIN),
        "ratio_to_stream": {row: ratio for row, ratio in _ratios(speeds, STREAM).items() if row in ROUNDED},
        "share_of_sgemm": _ratios(speeds, "limit: sgemm"),
        "share_of_memory": {row: share for row, share in _ratios(speeds, "limit: memory").items() if row == ALONE},
        "notes": notes,
    }


def _possible(rows: Sequence[str], model: ElmoModel, folder: Path) -> tuple[dict[str, Way], dict[str, str]]:
    compared: dict[str, Way] = {}
    notes: dict[str, str] = {}
    for row in rows:
        if row in NAMES:
            try:
                compared[row] = way(row, model, folder)
            except NotHereError as reason:
                notes[row] = str(reason)
    return compared, notes


def _speeds(
    compared: dict[str, Way], model: ElmoModel, text: Text, *, repeats: int, clock: Clock, notes: dict[str, str]
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Words per second of each way and limit in each repeat, and the seconds of the ways."""
    few = Text(text.paragraphs[:1], text.sentences[:_COMPARED])
    for one in compared.values():
        one.embed(few)  # weights are packed at the first use
    seconds: dict[str, list[float]] = {row: [] for row in compared}
    speeds: dict[str, list[float]] = {row: [] for row in (*compared, "limit: sgemm", "limit: memory")}
    alone = every_fourth(text).sentences
    for _ in range(repeats):
        speeds["limit: sgemm"].append(limits.sgemm(clock) / limits.products_per_word(model.config, text.sentences))
        speeds["limit: memory"].append(limits.read_bandwidth(clock) / limits.bytes_per_word(model.config, alone))
        for row, one in compared.items():
            part = one.part(text)
            one.prepare(part)
            with token_layer_times(clock) as token_layer:
                begin = clock()
                found = one.embed(part)
                seconds[row].append(clock() - begin)
                spent = token_layer()
            speeds[row].append(sum(vectors.shape[-2] for vectors in found) / seconds[row][-1])
            if row == SECOND_PASS:
                notes[row] = (
                    f"character CNN {spent.cnn / seconds[row][-1]:.1%} ({spent.calls} calls), with spelling and "
                    f"look-up {spent.all / seconds[row][-1]:.1%}"
                )
    return speeds, seconds


def _ratios(speeds: dict[str, list[float]], base: str) -> dict[str, float]:
    if base not in speeds:
        return {}
    return {
        row: statistics.median(one / other for one, other in zip(found, speeds[base], strict=True))
        for row, found in speeds.items()
    }


def _difference(compared: dict[str, Way], text: Text) -> float:
    few = Text([], text.sentences[:_COMPARED])
    expected, largest = compared[PLAIN].embed(few), 0.0
    for row in EXACT:
        if row in compared:
            for one, other in zip(compared[row].embed(few), expected, strict=True):
                largest = max(largest, float(np.abs(one - other).max(initial=0.0)))
    return largest


def measure_encoder(name: str, text: Text, elsewhere: Text, *, repeats: int, clock: Clock) -> dict[str, Any]:
    """A transformer's speed in words, not in pieces, per second."""
    tokenizer = encoders.train_tokenizer(elsewhere.paragraphs)
    embed = encoders.embedding(encoders.build(name), tokenizer)
    embed(text.sentences[:_COMPARED])
    speeds = []
    for _ in range(repeats):
        begin = clock()
        embed(text.sentences)
        speeds.append(text.num_words / (clock() - begin))
    pieces = encoders.pieces_per_word(tokenizer, text.sentences)
    return {"model": name, "words_per_second": statistics.median(speeds), "pieces_per_word": pieces}


def measure_costs(names: Sequence[str], text: Text, *, repeats: int, threads: int) -> dict[str, Any]:
    """Imports, and each model's loading and memory."""
    found: dict[str, Any] = {"import_seconds": costs.import_seconds(repeats=repeats, threads=threads), "models": {}}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            found["models"][name] = costs.model_costs(
                name, models.build(name), text, Path(folder), repeats=repeats, threads=threads
            )
    return found


def model_table(result: dict[str, Any], setting: str) -> Table:
    """A model's speeds."""
    shown = Table(title=f"{result['model']}: words per second ({setting})")
    for column in ("way", "words/s", "to plain", "of the limit", ""):
        shown.add_column(column, justify="left" if column in ("way", "") else "right")
    notes = result["notes"]
    for row, speed in result["words_per_second"].items():
        ratio, note, of_limit = result["ratio_to_plain"].get(row), notes.get(row, ""), ""
        if row in result["ratio_to_stream"]:
            note = f"{result['ratio_to_stream'][row]:.2f}× stream"
        if row == ALONE:
            of_limit = f"{result['share_of_memory'][row]:.2f} memory"
        elif row in EXACT and row != PLAIN:
            of_limit = f"{result['share_of_sgemm'][row]:.2f} sgemm"
        shown.add_row(row, f"{speed:,.0f}", f"{ratio:.2f}×" if ratio is not None else "", of_limit, note)
    for row in notes:
        if row not in result["words_per_second"]:
            shown.add_row(row, "", "", "", notes[row])
    return shown


def encoder_table(results: Sequence[dict[str, Any]], setting: str) -> Table:
    """The transformers' speeds."""
    shown = Table(title=f"transformers: words per second ({setting})")
    for column in ("model", "words/s", "pieces a word"):
        shown.add_column(column, justify="left" if column == "model" else "right")
    for result in results:
        shown.add_row(result["model"], f"{result['words_per_second']:,.0f}", f"{result['pieces_per_word']:.2f}")
    return shown


def import_table(seconds: dict[str, float]) -> Table:
    """What importing costs."""
    shown = Table(title="seconds to import, in a fresh process")
    shown.add_column("module")
    shown.add_column("seconds", justify="right")
    for module, one in seconds.items():
        shown.add_row(module, f"{one:.2f}")
    return shown


def cost_table(found: dict[str, dict[str, float]], setting: str) -> Table:
    """What the first use of each model costs."""
    shown = Table(title=f"first use, in a fresh process ({setting})")
    shown.add_column("model")
    for column in ("load, s", "first sentence, s", "peak after it, MiB", "peak after the text, MiB"):
        shown.add_column(column, justify="right")
    for name, one in found.items():
        shown.add_row(
            name,
            f"{one['load_seconds']:.2f}",
            f"{one['first_sentence_seconds']:.2f}",
            f"{one['peak_bytes_one_sentence'] / 2**20:,.0f}",
            f"{one['peak_bytes'] / 2**20:,.0f}",
        )
    return shown


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    command = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    command.add_argument(
        "--text", type=text_file, default=DEFAULT_TEXT, help="UTF-8 text, .txt or .gz (default: a novel)"
    )
    command.add_argument("--words", type=int, default=6000, help="how many of its words, at least (%(default)s)")
    command.add_argument(
        "--sizes",
        nargs="*",
        choices=(*models.NAMES, "tiny"),
        default=list(models.NAMES),
        metavar="SIZE",
        help=f"of {', '.join(models.NAMES)} (default: all)",
    )
    command.add_argument(
        "--rows",
        nargs="+",
        choices=ROWS,
        default=list(ROWS),
        metavar="ROW",
        help=f"of {', '.join(map(repr, ROWS))} (default: all)",
    )
    command.add_argument("--threads", type=int, default=1)
    command.add_argument("--repeats", type=int, default=3)
    command.add_argument("--json", type=Path, default=None, help="also write the figures here")
    return command


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    text = read_text(options.text, options.words)
    threads = "1 thread" if options.threads == 1 else f"{options.threads} threads"
    setting = f"{text.num_words:,} words in {len(text.sentences):,} sentences, {threads}"
    common: dict[str, Any] = {"repeats": options.repeats, "clock": clock}
    results: dict[str, Any] = {"words": text.num_words, "sentences": len(text.sentences), "threads": options.threads}
    console = Console(width=120)
    if set(options.rows) & set(NAMES):
        results["models"] = []
        for name in options.sizes:
            results["models"].append(measure_model(name, text, rows=options.rows, **common))
            console.print(model_table(results["models"][-1], setting))
    if ENCODERS in options.rows:
        elsewhere = read_text(options.text, 2**62, skip_words=text.num_words)
        elsewhere = elsewhere if elsewhere.paragraphs else text
        results["encoders"] = [measure_encoder(name, text, elsewhere, **common) for name in encoders.NAMES]
        console.print(encoder_table(results["encoders"], setting))
    if COSTS in options.rows:
        results["costs"] = measure_costs(options.sizes, text, repeats=options.repeats, threads=options.threads)
        console.print(import_table(results["costs"]["import_seconds"]))
        console.print(cost_table(results["costs"]["models"], setting))
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
