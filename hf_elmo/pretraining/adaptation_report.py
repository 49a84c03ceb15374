"""What an adaptation did to the perplexity of held-out text: as a table, as JSON, and in the model card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from hf_elmo.perplexity import Perplexity
from hf_elmo.pretraining.markdown import markdown_table, marked
from hf_elmo.pretraining.perplexity_report import (
    TextPerplexity,
    as_json,
    conventions,
    in_markdown,
    numbers,
    table,
)
from hf_elmo.pretraining.shards import HELDOUT_PREFIX, PreparedCorpus

_READING = (
    "By the full softmax over all of each text: every word and every sentence's closing boundary (</S> forward, <S> "
    "backward) is predicted once in each direction, words outside the vocabulary count as the one word <UNK>, the "
    "state is carried from sentence to sentence, and the figure is the root of forward times backward."
)


@dataclass
class AdaptationReport:
    """Perplexities of every held-out text, by its name, before, at the start and after.

    Args:
        model: the name of the model adapted.
        head: in a few words, where the softmax came from.
        keeps_vocabulary: whether the result predicts the same words as the model did.
        corpus: the text in the vocabulary of the result.
        num_streams: parallel streams in which the texts are read.
        before: of the model as it came, in its own vocabulary; empty where it had no softmax.
        before_unknown: the share of each text outside that vocabulary.
        start: of the model before its first update, in the vocabulary of the result.
        after: of the result.
        by_state: of a result with a warm state: what the state is worth.
    """

    model: str
    head: str
    keeps_vocabulary: bool
    corpus: PreparedCorpus
    num_streams: int
    before: Mapping[str, Perplexity] = field(default_factory=dict)
    before_unknown: Mapping[str, float] = field(default_factory=dict)
    start: Mapping[str, Perplexity] = field(default_factory=dict)
    after: Mapping[str, Perplexity] = field(default_factory=dict)
    by_state: Sequence[TextPerplexity] = ()

    @property
    def is_comparable(self) -> bool:
        """Whether `before` is a perplexity over the same words as `after`."""
        return bool(self.before) and self.keeps_vocabulary

    @property
    def comparison(self) -> str:
        """What may be compared with what."""
        if self.is_comparable:
            return "Before and after predict the same words of the same text, read in the same way."
        if self.before:
            return (
                f"* The vocabulary is new. Before is {self.model} over its own vocabulary, and cannot be compared with "
                "the others. Start is its softmax carried over to the new vocabulary, before the first update; start "
                "and after predict the same words of the same text, read in the same way."
            )
        return (
            f"{self.model} came without a softmax, so that there is no perplexity before. Start is a softmax of the "
            "words' frequencies alone, before the first update; start and after predict the same words of the same "
            "text, read in the same way."
        )

    def show(self, console: Console) -> None:
        """Print the table and what it means, and the same for the states."""
        if not self.after:
            return
        shown = Table(title="Perplexity of held-out text", title_justify="left")
        for number, name in enumerate(self._header()):
            shown.add_column(name, justify="right" if number else "left")
        for row in self._rows():
            shown.add_row(*row)
        console.print(shown)
        console.print(f"{_READING} {self.comparison}", highlight=False, markup=False)
        if self.by_state:
            console.print(table(self.by_state))
            console.print(self._conventions(), highlight=False, markup=False)

    def json(self) -> dict[str, Any]:
        """For a file."""
        report: dict[str, Any] = {
            "model": self.model,
            "softmax": self.head,
            "before_is_comparable": self.is_comparable,
            "conventions": f"{_READING} {self.comparison}",
            "before": {
                name: {**numbers(result), "oov_rate": self.before_unknown[name]} for name, result in self.before.items()
            },
            "start": {name: numbers(result) for name, result in self.start.items()},
            "after": {name: numbers(result) for name, result in self.after.items()},
        }
        if self.by_state:
            report["initial_states"] = {"conventions": self._conventions(), "texts": as_json(self.by_state)}
        return report

    def section(self) -> str:
        """For the model card, in Markdown; the conventions stand there already."""
        parts = [f"## Adapted from {self.model}", f"The softmax is {self.head}."]
        if self.after:
            parts += [markdown_table(self._header(), self._rows()), marked(self.comparison)]
        if self.by_state:
            parts.append("A sentence begins in the stored warm state. What that is worth:")
            parts += in_markdown(self.by_state, self._conventions())
        return "\n\n".join(parts)

    def _header(self) -> tuple[str, ...]:
        if self.is_comparable:
            return ("text", "words", "<UNK>", "before", "after", "change")
        if self.before:
            return ("text", "words", "<UNK>*", "before*", "<UNK>", "start", "after", "change")
        return ("text", "words", "<UNK>", "start", "after", "change")

    def _rows(self) -> list[tuple[str, ...]]:
        rows = []
        for name, after in self.after.items():
            report = self.corpus.split_report(HELDOUT_PREFIX + name)
            start = self.start[name]
            cells = [name, f"{report['tokens']:,}"]
            if self.before and not self.is_comparable:
                cells += [_percent(self.before_unknown[name]), f"{self.before[name].average:.2f}"]
            cells += [_percent(report["oov_rate"]), f"{start.average:.2f}", f"{after.average:.2f}"]
            rows.append((*cells, f"{100 * (after.average / start.average - 1):+.1f} %"))
        return rows

    def _conventions(self) -> str:
        return conventions(self.by_state, vocab_size=self.corpus.vocab_size, num_streams=self.num_streams)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
