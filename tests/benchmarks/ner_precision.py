"""What the precision of the biLM's products does to the entities that a trained pipeline finds.

    python -m tests.benchmarks.ner_precision training/model-best dev.spacy

The pipeline is one of spaCy's that reads ELMo, by a component `elmo` or a layer of its own; the examples are a .spacy
file. Scores are those of `spacy evaluate`. `other docs` is the share of docs in which other entities are found than
with fp32, whether better or worse. With one thread, words per second are those of the processor's time.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import spacy
import torch
from rich.console import Console
from rich.table import Table
from spacy.language import Language
from spacy.scorer import Scorer
from spacy.training import Corpus, Example

from hf_elmo.prepacked_linear import Precision, check_precision
from spacy_elmo.bilm import BiLM
from tests.benchmarks.precision import PRECISIONS


class Entities(NamedTuple):
    """What a pipeline found: its scores, words per second, and (first token, token after the last, label) per doc."""

    scores: dict[str, Any]
    words_per_second: float
    spans: list[set[tuple[int, int, str]]]


def bilms(nlp: Language) -> list[BiLM]:
    """Every biLM of a pipeline, each once."""
    layers = [layer for _, pipe in nlp.components if hasattr(pipe, "model") for layer in pipe.model.walk()]
    shims = [shim for layer in layers for shim in layer.shims if isinstance(shim, BiLM)]
    return list({id(shim): shim for shim in shims}.values())


def set_precision(nlp: Language, precision: Precision) -> None:
    """Of every biLM of a pipeline.

    Raises:
        ValueError: the device of one cannot compute so.
    """
    for bilm in bilms(nlp):
        check_precision(precision, bilm.model.device)
        bilm.precision = precision


def find_entities(nlp: Language, examples: Sequence[Example], clock: Callable[[], float]) -> Entities:
    """Run a pipeline on the tokens of examples, which are left as they are."""
    docs = [example.predicted.copy() for example in examples]
    begin = clock()
    docs = list(nlp.pipe(docs))
    seconds = clock() - begin
    scored = [Example(doc, example.reference) for doc, example in zip(docs, examples, strict=True)]
    spans = [{(entity.start, entity.end, entity.label_) for entity in doc.ents} for doc in docs]
    return Entities(Scorer(nlp).score(scored), sum(map(len, docs)) / seconds, spans)


def compare(nlp: Language, examples: Sequence[Example], clock: Callable[[], float]) -> dict[str, dict[str, Any]]:
    """The figures of each precision, or why it cannot be."""
    found: dict[str, dict[str, Any]] = {}
    exact: Entities | None = None
    for precision in PRECISIONS:
        try:
            set_precision(nlp, precision)
        except ValueError as refused:
            found[precision] = {"refused": str(refused)}
            continue
        next(iter(nlp.pipe([examples[0].predicted.copy()])))  # weights are packed at the first use
        one = find_entities(nlp, examples, clock)
        exact = exact or one
        other = sum(a != b for a, b in zip(one.spans, exact.spans, strict=True))
        found[precision] = {
            **{key: one.scores[key] for key in ("ents_p", "ents_r", "ents_f")},
            "other_docs": other / len(examples),
            "words_per_second": one.words_per_second,
        }
    return found


def table(found: dict[str, dict[str, Any]], title: str) -> Table:
    """Scores in percent."""
    shown = Table(title=title)
    for column in ("precision", "P", "R", "F1", "F1 - fp32's", "other docs", "words/s"):
        shown.add_column(column, justify="left" if column == "precision" else "right")
    for precision, one in found.items():
        if "refused" in one:
            shown.add_row(precision, one["refused"])
            continue
        scores = [f"{100 * one[key]:.2f}" for key in ("ents_p", "ents_r", "ents_f")]
        change = 100 * (one["ents_f"] - found[PRECISIONS[0]]["ents_f"])
        shown.add_row(
            precision, *scores, f"{change:+.2f}", f"{one['other_docs']:.2%}", f"{one['words_per_second']:,.0f}"
        )
    return shown


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    command = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    command.add_argument("pipeline", type=Path, help="folder of a trained spaCy pipeline with ELMo and entities")
    command.add_argument("examples", type=Path, help="a .spacy file")
    command.add_argument("--limit", type=int, default=0, help="how many examples (default: all)")
    command.add_argument("--threads", type=int, default=1)
    command.add_argument("--json", type=Path, default=None, help="also write the figures here")
    return command


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    nlp = spacy.load(options.pipeline)
    if not bilms(nlp):
        raise SystemExit(f"pipeline: got the components {nlp.pipe_names}; expected one that reads ELMo.")
    examples = list(Corpus(options.examples, limit=options.limit)(nlp))
    if not any(example.reference.ents for example in examples):
        raise SystemExit(f"examples: got {len(examples)} without an entity; expected a .spacy file with entities.")
    found = compare(nlp, examples, clock)
    words = sum(len(example.reference) for example in examples)
    Console(width=120).print(table(found, f"entities by precision ({len(examples):,} docs, {words:,} words)"))
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
