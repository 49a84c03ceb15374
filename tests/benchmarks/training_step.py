"""Words per second of a training step, beside the plain way and the limit of the machine.

    python tests/benchmarks/training_step.py --text FILE... [--size small] [--threads 1] [--tokens N]

Two copies of one model read the same batches of the text, with the same sampled softmax, negatives and optimiser, one
the way `hf-elmo pretrain` trains, the other the plain way of `tests/oracles/plain_training.py` (the character CNN on
every position, a loop over time).  Their updates alternate, so that a slow moment of the machine meets both.  The limit
is the fastest product of large matrices, measured before each pair of updates, divided by the FLOPs that a word needs
in training (`hf_elmo.pretraining.machine_limit`).  There is no dropout, so that both copies learn the same.  A tenth of
the text is held out; both copies are evaluated on its beginning after equal tokens.
"""

import argparse
import gzip
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch

from hf_elmo import ElmoConfig, ElmoForPreTraining
from hf_elmo.initial_state import ElmoState
from hf_elmo.perplexity import perplexity
from hf_elmo.pretraining.corpus import Source
from hf_elmo.pretraining.machine_limit import machine_limit, measure_limit
from hf_elmo.pretraining.prepare import prepare
from hf_elmo.pretraining.prepare_options import PrepareOptions
from hf_elmo.pretraining.shards import PreparedCorpus
from hf_elmo.pretraining.streams import HeldoutStreams, StreamBatches
from hf_elmo.pretraining.trainer import model_inputs

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.oracles.plain_training import plain_lm_loss

SIZES: dict[str, dict[str, Any]] = {
    "small": {"lstm_size": 1024, "projection_size": 128, "num_highway_layers": 1},
    "medium": {"lstm_size": 2048, "projection_size": 256, "num_highway_layers": 1},
    "tiny": {
        "lstm_size": 64,
        "projection_size": 16,
        "num_highway_layers": 2,
        "character_embedding_size": 4,
        "character_filters": [[1, 4], [2, 8], [3, 16], [4, 32], [5, 64]],
    },
}
UNROLL = 20
HELDOUT_BATCH = 16
Forward = Callable[..., tuple[torch.Tensor, ElmoState]]
Clock = Callable[[], float]


class Times(NamedTuple):
    """Seconds of every update of both ways, and what a product of matrices reached before each."""

    ours: list[float]
    plain: list[float]
    flops_per_second: list[float]


def our_loss(model: ElmoForPreTraining, **inputs: Any) -> tuple[torch.Tensor, ElmoState]:
    """The model's own way."""
    output = model(**inputs)
    return output.loss, output.state


class Training:
    """One copy of the model, its optimiser and its streams' state; updates as the recipes of the published sizes.

    Args:
        config: of the model.
        forward: how the loss is computed.
        batch_size: streams.
        clock: what measures.
    """

    def __init__(self, config: ElmoConfig, forward: Forward, batch_size: int, clock: Clock) -> None:
        torch.manual_seed(0)
        self.clock = clock
        self.forward = forward
        self.model = ElmoForPreTraining(config).train()
        self.state = self.model.elmo.initial_state(batch_size, like=self.model.lm_head.weight)
        self.optimizer = torch.optim.Adagrad(self.model.parameters(), lr=0.2, initial_accumulator_value=1.0, eps=0.0)

    def update(self, inputs: dict[str, torch.Tensor], seed: int) -> tuple[float, float]:
        """One update; its seconds and its loss in nats per word."""
        torch.manual_seed(seed)  # of the negatives
        begin = self.clock()
        loss, state = self.forward(self.model, **inputs, state=self.state)
        (loss * UNROLL).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 10.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        seconds = self.clock() - begin
        self.state = state.detach()
        return seconds, loss.item()


def prepare_text(files: list[Path], folder: Path, vocab_size: int) -> PreparedCorpus:
    """The first nine tenths of every file's paragraphs to train on, the rest held out."""
    parts: dict[str, list[str]] = {"train": [], "heldout": []}
    for file in files:
        data = file.read_bytes()
        paragraphs = (gzip.decompress(data) if file.suffix == ".gz" else data).decode("utf-8").split("\n\n")
        cut = len(paragraphs) * 9 // 10
        parts["train"] += paragraphs[:cut]
        parts["heldout"] += paragraphs[cut:]
    for name, paragraphs in parts.items():
        (folder / f"{name}.txt").write_text("\n\n".join(paragraphs), encoding="utf-8")
    sources = {name: [Source(name, str(folder / f"{name}.txt"))] for name in parts}
    options = PrepareOptions(vocab_size=vocab_size, processes=1)
    return prepare(sources["train"], folder / "prepared", heldout=sources["heldout"], options=options)


def measure(trainings: tuple[Training, ...], streams: StreamBatches, updates: int) -> tuple[Times, tuple[float, float]]:
    """Updates of both in turn, the second first in every other pair; times, and both losses of the first update."""
    times, first_losses = Times([], [], []), (0.0, 0.0)
    for number, batch in enumerate(map(model_inputs, islice(streams, updates))):
        times.flops_per_second.append(measure_limit("cpu", seconds=0.1, clock=trainings[0].clock))
        results: dict[int, tuple[float, float]] = {}
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            results[which] = trainings[which].update(batch, seed=number)
        times.ours.append(results[0][0])
        times.plain.append(results[1][0])
        if number == 0:
            first_losses = results[0][1], results[1][1]
    return times, first_losses


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--text",
        nargs="+",
        type=Path,
        required=True,
        metavar="FILE",
        help="UTF-8 text or .gz of it, blank lines between paragraphs",
    )
    parser.add_argument("--size", choices=sorted(SIZES), default="small")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=32, help="streams (%(default)s; the published recipes have 128)")
    parser.add_argument("--tokens", type=int, default=10_000, help="each way trains on, per direction (%(default)s)")
    parser.add_argument("--repeats", type=int, default=1, help="passes of --tokens, medians over all (%(default)s)")
    parser.add_argument("--vocab-size", type=int, default=50_000, help="at most (%(default)s)")
    parser.add_argument("--negatives", type=int, default=8192, help="of the sampled softmax (%(default)s)")
    parser.add_argument("--heldout-tokens", type=int, default=5_000, help="to evaluate on (%(default)s)")
    parser.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu: processor time divided by --threads, for a machine that others use at the same time (%(default)s)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    args = parser.parse_args(arguments)
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        figures = benchmark(args, prepare_text(args.text, Path(folder), args.vocab_size))
    print(table(figures))
    if args.json is not None:
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


def benchmark(args: argparse.Namespace, prepared: PreparedCorpus) -> dict[str, Any]:
    """All figures, as JSON takes them."""
    words_per_update = args.batch * UNROLL
    updates = max(2, args.tokens // words_per_update) * args.repeats
    config = ElmoConfig(
        vocab_size=prepared.vocab_size + 1, num_negative_samples=args.negatives, dropout=0.0, **SIZES[args.size]
    )
    clock = time.perf_counter if args.clock == "wall" else partial(_processor_seconds, args.threads)
    trainings = tuple(Training(config, forward, args.batch, clock) for forward in (our_loss, plain_lm_loss))
    times, (our_first, plain_first) = measure(
        trainings, StreamBatches(prepared, batch_size=args.batch, unroll_steps=UNROLL), updates
    )
    timed = Times(*(values[1:] for values in times))  # the first update of each is warming up
    limit = machine_limit(config, prepared, words_per_batch=words_per_update, device="cpu")
    ours, plain = (words_per_update / statistics.median(seconds) for seconds in (timed.ours, timed.plain))
    at_limit = statistics.median(timed.flops_per_second) / limit.flops_per_word
    return {
        "size": args.size,
        "threads": args.threads,
        "clock": args.clock,
        "torch": torch.__version__,
        "batch": args.batch,
        "unroll_steps": UNROLL,
        "vocabulary": prepared.vocab_size,
        "negatives": args.negatives if trainings[0].model.lm_head.sampled else None,
        "updates": updates,
        "tokens_trained_on": updates * words_per_update,
        "text_tokens": prepared.split_report("train")["tokens"],
        "words_per_second": {"ours": ours, "plain": plain, "limit": at_limit},
        "seconds_per_update": {"ours": timed.ours, "plain": timed.plain},
        "ratio_ours_to_plain": statistics.median(p / o for o, p in zip(timed.ours, timed.plain, strict=True)),
        "share_of_limit": {"ours": ours / at_limit, "plain": plain / at_limit},
        "gflops_per_second_of_matrix_products": [value / 1e9 for value in timed.flops_per_second],
        "mflop_per_word": limit.flops_per_word / 1e6,
        "first_loss": {"ours": our_first, "plain": plain_first},
        "heldout_perplexity": {
            name: _perplexity(training.model, prepared, args.heldout_tokens)
            for name, training in zip(("ours", "plain"), trainings, strict=True)
        },
    }


def _processor_seconds(threads: int) -> float:
    return time.process_time() / threads


def _perplexity(model: ElmoForPreTraining, prepared: PreparedCorpus, tokens: int) -> float:
    streams = HeldoutStreams(prepared, "heldout-heldout", batch_size=HELDOUT_BATCH, unroll_steps=UNROLL)
    batches = islice(map(model_inputs, streams), max(1, tokens // (HELDOUT_BATCH * UNROLL)))
    return perplexity(model, batches).average


def table(figures: dict[str, Any]) -> str:
    """The figures for a person."""
    softmax = f"{figures['negatives']:,} negatives" if figures["negatives"] else "full softmax"
    gflops = statistics.median(figures["gflops_per_second_of_matrix_products"])
    lines = [
        f"{figures['size']}, {figures['threads']} thread(s), {figures['batch']} x {figures['unroll_steps']} words an "
        f"update, {softmax} of {figures['vocabulary']:,} words, torch {figures['torch']}",
        f"median of {len(figures['seconds_per_update']['ours'])} updates after one of warming up, "
        f"{figures['clock']} time",
        "",
        f"{'':<26}{'words/s':>10}{'ms/update':>12}{'of the limit':>14}{'perplexity':>12}",
    ]
    for name, title in (("ours", "hf-elmo pretrain"), ("plain", "plain per-step loop")):
        milliseconds = 1000 * statistics.median(figures["seconds_per_update"][name])
        lines.append(
            f"{title:<26}{figures['words_per_second'][name]:>10,.0f}{milliseconds:>12,.0f}"
            f"{100 * figures['share_of_limit'][name]:>12.0f} %{figures['heldout_perplexity'][name]:>12.1f}"
        )
    limit = f"limit ({gflops:,.0f} GFLOP/s, {figures['mflop_per_word']:,.0f} MFLOP/word)"
    return "\n".join(
        [
            *lines,
            f"{limit}: {figures['words_per_second']['limit']:,.0f} words/s",
            "",
            f"ours / plain: {figures['ratio_ours_to_plain']:.2f} x (median over pairs of updates); both after "
            f"{figures['tokens_trained_on']:,} words of a text of {figures['text_tokens']:,}",
            f"loss of the first update: {figures['first_loss']['ours']:.5f} and {figures['first_loss']['plain']:.5f}",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
