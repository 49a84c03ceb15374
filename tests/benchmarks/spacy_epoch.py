"""How long an epoch of NER training takes on a frozen ELMo whose layers are cached, against the epoch without ELMo.

    python -m tests.benchmarks.spacy_epoch train.conll [--epochs 5] [--sentences N] [--cache folder]

Both pipelines are trained by spaCy's own loop, `spacy.training.loop.train_while_improving`, in this process and without
evaluation.  The one with ELMo is what `python -m spacy_elmo init-config` writes; the one without has the same features
and the same encoder in spaCy's own `spacy.Tok2Vec.v2`, and no sentencizer.  They take turns, an epoch each, so that a
slow moment of the machine meets both.  In its first epoch the biLM reads the corpus and the cache is filled; medians
and ratios are over the epochs after it.  `computed` is the number of sentences that the biLM read in an epoch: with a
warm cache 0.

The corpus is the user's: a `.spacy` file, or one with a word at the beginning of each line, an IOB tag at its end, and
an empty line between sentences.  With one thread, times are those of the processor, not of the clock.
"""

import argparse
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import spacy
import torch
from rich.console import Console
from rich.table import Table
from spacy.tokens import Doc, DocBin
from spacy.training import Corpus
from spacy.training.converters import conll_ner_to_docs
from spacy.training.initialize import init_nlp
from spacy.training.loop import create_train_batches, train_while_improving
from spacy.util import registry
from thinc.api import Config

from spacy_elmo.component import ElmoComponent
from spacy_elmo.config_template import build_config

WITHOUT, WITH = "without ELMo", "frozen ELMo"
_NEVER = 10**9
Clock = Callable[[], float]


class Epoch(NamedTuple):
    """One pass over the corpus.

    Attributes:
        seconds: in `nlp.update`, the optimizer and the making of batches.
        words: in its docs.
        computed: sentences that the biLM read, because no cache had them.
    """

    seconds: float
    words: int
    computed: int


class Training:
    """A pipeline in spaCy's training loop, an epoch at a time.

    Args:
        config: as for `spacy train`.
        clock: what measures.
    """

    def __init__(self, config: Config, clock: Clock) -> None:
        self.nlp = init_nlp(config)
        self._clock = clock
        settings = registry.resolve(self.nlp.config.interpolate()["training"])
        corpus = Corpus(self.nlp.config.interpolate()["corpora"]["train"]["path"])
        self._steps: Iterator[Any] = train_while_improving(
            self.nlp,
            settings["optimizer"],
            create_train_batches(self.nlp, corpus, settings["batcher"], 0),
            lambda: (0.0, {}),
            dropout=settings["dropout"],
            accumulate_gradient=settings["accumulate_gradient"],
            patience=0,
            max_steps=0,
            eval_frequency=_NEVER,
            exclude=settings["frozen_components"],
            annotating_components=settings["annotating_components"],
            before_update=None,
        )
        self._begun = Epoch(0.0, 0, 0)  # the first step after the epoch before

    def epoch(self) -> Epoch:
        """Train until spaCy begins another epoch."""
        done, self._begun = self._begun, Epoch(0.0, 0, 0)
        current: int | None = None
        while True:
            computed, begin = self._computed, self._clock()
            batch, info, _ = next(self._steps)
            step = Epoch(self._clock() - begin, sum(map(len, batch)), self._computed - computed)
            if current is None:
                current = info["epoch"]
            if info["epoch"] != current:
                self._begun = step
                return done
            done = Epoch(*(sum(both) for both in zip(done, step, strict=True)))

    @property
    def _computed(self) -> int:
        caches = [pipe.shim.cache for _, pipe in self.nlp.pipeline if isinstance(pipe, ElmoComponent)]
        return sum(cache.statistics.misses for cache in caches if cache is not None)


def read_docs(path: Path, *, sentences_per_doc: int, sentences: int | None) -> Iterator[Doc]:
    """The docs of a `.spacy` file or of one in CoNLL's format; of the latter at most so many sentences."""
    if path.suffix == ".spacy":
        yield from DocBin().from_disk(path).get_docs(spacy.blank("xx").vocab)
        return
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    blocks = "\n".join(line for line in lines if not line.startswith("-DOCSTART-")).split("\n\n")
    found = [block.strip() for block in blocks if block.strip()]
    chosen = itertools.islice(found, sentences)
    while group := list(itertools.islice(chosen, sentences_per_doc)):
        yield from conll_ner_to_docs("\n\n".join(group), n_sents=0, no_print=True)


def configs(corpus: Path, arguments: argparse.Namespace, cache_dir: Path) -> dict[str, Config]:
    """What `init-config` writes, and the same without ELMo."""
    on_elmo = build_config(
        pipeline=["ner"], lang=arguments.lang, model=arguments.model, output_mix=arguments.output_mix
    )
    in_folder = {"cache_size": 0, "cache_dir": str(cache_dir)}
    options = in_folder if arguments.cache == "folder" else {"cache_size": arguments.cache_size, "cache_dir": None}
    on_elmo["initialize"]["before_init"].update(options, store_dtype=arguments.store_dtype)
    plain = on_elmo.copy()
    tok2vec = plain["components"]["ner"]["model"]["tok2vec"]
    plain["components"] = {"ner": plain["components"]["ner"]}
    plain["components"]["ner"]["model"]["tok2vec"] = {
        "@architectures": "spacy.Tok2Vec.v2",
        "embed": tok2vec["embed"],
        "encode": tok2vec["encode"],
    }
    plain["nlp"]["pipeline"] = ["ner"]
    plain["training"]["annotating_components"] = []
    plain["initialize"]["before_init"] = None
    for config in (plain, on_elmo):
        config["paths"].update(train=str(corpus), dev=str(corpus))
    return {WITHOUT: plain, WITH: on_elmo}


def measure(arguments: argparse.Namespace, clock: Clock) -> dict[str, list[Epoch]]:
    """Every epoch of both, in turns."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        docs = list(
            read_docs(arguments.corpus, sentences_per_doc=arguments.sentences_per_doc, sentences=arguments.sentences)
        )
        if not any(doc.ents for doc in docs):
            raise ValueError(f"{arguments.corpus}: got no entities; expected a .spacy file, or words and IOB tags.")
        DocBin(docs=docs, store_user_data=True).to_disk(folder / "train.spacy")
        trainings = {
            name: Training(config, clock)
            for name, config in configs(folder / "train.spacy", arguments, folder / "cache").items()
        }
        epochs: dict[str, list[Epoch]] = {name: [] for name in trainings}
        for _ in range(arguments.epochs):
            for name, training in trainings.items():
                epochs[name].append(training.epoch())
        return epochs


def figures(epochs: dict[str, list[Epoch]]) -> dict[str, Any]:
    """Medians over the epochs after the first, and their ratio, as JSON takes them."""
    later = {name: [epoch.seconds for epoch in one[1:]] for name, one in epochs.items()}
    medians = {name: statistics.median(seconds) for name, seconds in later.items()}
    return {
        "epochs": {name: [epoch._asdict() for epoch in one] for name, one in epochs.items()},
        "median_seconds": medians,
        "words_per_second": {name: epochs[name][0].words / seconds for name, seconds in medians.items()},
        "ratio": medians[WITH] / medians[WITHOUT],
        "ratio_of_the_first_epoch": epochs[WITH][0].seconds / epochs[WITHOUT][0].seconds,
    }


def table(found: dict[str, Any], title: str) -> Table:
    """The figures for a person."""
    shown = Table(title=title)
    for column in ("epoch", WITHOUT, WITH, "computed", "ratio"):
        shown.add_column(column, justify="right")
    pairs = zip(found["epochs"][WITHOUT], found["epochs"][WITH], strict=True)
    for number, (plain, elmo) in enumerate(pairs, start=1):
        seconds = (plain["seconds"], elmo["seconds"])
        shown.add_row(str(number), *(f"{one:.2f} s" for one in seconds), f"{elmo['computed']:,}", _ratio(*seconds))
    medians = found["median_seconds"]
    shown.add_section()
    shown.add_row("median", *(f"{medians[name]:.2f} s" for name in (WITHOUT, WITH)), "", f"{found['ratio']:.2f} ×")
    speeds = (f"{found['words_per_second'][name]:,.0f}" for name in (WITHOUT, WITH))
    shown.add_row("words/s", *speeds, "", "")
    return shown


def _ratio(plain: float, elmo: float) -> str:
    return f"{elmo / plain:.2f} ×"


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path, metavar="FILE", help=".spacy, or words and IOB tags as in CoNLL-2003")
    parser.add_argument("--epochs", type=int, default=5, help="of each, the first of them not counted (%(default)s)")
    parser.add_argument("--sentences", type=int, help="how many are read of a CoNLL file (all)")
    parser.add_argument("--sentences-per-doc", type=int, default=10, help="of a CoNLL file (%(default)s)")
    parser.add_argument("--lang", default="en", help="language code (%(default)s)")
    parser.add_argument("--model", help="folder or Hub id of an ELMo (the one that is installed)")
    parser.add_argument("--output-mix", action="store_true", help="mix the layers after the encoder too")
    parser.add_argument("--cache", choices=("memory", "folder"), default="memory", help="(%(default)s)")
    parser.add_argument("--cache-size", type=int, default=10**9, help="bound on the memory, in bytes (%(default)s)")
    parser.add_argument("--store-dtype", choices=("float32", "float16"), default="float32", help="(%(default)s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    arguments = parser.parse_args(given)
    if arguments.epochs < 2:
        parser.error(f"argument --epochs: got {arguments.epochs}; expected 2 or more, the first one fills the cache")
    torch.set_num_threads(arguments.threads)
    clock = time.process_time if arguments.threads == 1 else time.perf_counter
    found = figures(measure(arguments, clock))
    words, computed = found["epochs"][WITH][0]["words"], found["epochs"][WITH][0]["computed"]
    title = f"seconds of an epoch ({words:,} words, {computed:,} distinct sentences, cache in {arguments.cache})"
    Console(width=100).print(table(found, title))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
