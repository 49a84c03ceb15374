"""What an adaptation did to the perplexity of held-out text: as a table, as JSON, and in the model card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from hf_elmo.perplexity import Perplexity
from hf_elmo.pretraining.shards import HELDOUT_PREFIX, PreparedCorpus

Perplexities = Mapping[str, Perplexity]


@dataclass
class AdaptationReport:
    """Perplexities of every held-out text, by its name, at three moments.

    Args:
        model: the name of the model adapted.
        keeps_vocabulary: whether the result predicts the same words as the model did.
        head: in a few words, where the softmax came from.
        corpus: the text in the vocabulary of the result.
        before: of the model as it came, in its own vocabulary; empty where it had no softmax.
        before_unknown: the share of each text outside that vocabulary.
        start: of the model before its first update, in the vocabulary of the result.
        after: of the result.
    """

    model: str
    keeps_vocabulary: bool
    head: str
    corpus: PreparedCorpus
    before: Perplexities = field(default_factory=dict)
    before_unknown: Mapping[str, float] = field(default_factory=dict)
    start: Perplexities = field(default_factory=dict)
    after: Perplexities = field(default_factory=dict)

    @property
    def is_comparable(self) -> bool:
        """Whether `before` is a perplexity over the same words as `after`."""
        return bool(self.before) and self.keeps_vocabulary

    def explanation(self) -> str:
        """What the columns mean, as one paragraph."""
        reading = (
            "By the full softmax over the same text, read in the same way: every word and every sentence's closing "
            "boundary (</S> forward, <S> backward) is predicted once in each direction, words outside the vocabulary "
            "count as the one word <UNK>, the state is carried from sentence to sentence; the average is the root of "
            "forward times backward."
        )
        if self.is_comparable:
            return f"{reading} Before and after predict the same words of one vocabulary."
        if self.before:
            return (
                f"{reading} The vocabulary is new: before is {self.model} as it came, over its own vocabulary, and "
                "cannot be compared with the others; start is its softmax carried over to the new vocabulary, before "
                "the first update, and can be compared with after."
            )
        return (
            f"{reading} {self.model} has no softmax, so that there is no perplexity before; start is a softmax of word "
            "frequencies alone, before the first update."
        )

    def rows(self) -> list[tuple[str, ...]]:
        """Per text: name, words, share outside the vocabulary, then average perplexities, with the change in percent.

        Between the share and the result stand the columns of `header`.
        """
        rows = []
        for name, after in self.after.items():
            report = self.corpus.split_report(f"{HELDOUT_PREFIX}{name}")
            row = [name, f"{report['tokens']:,}", _percent(report["oov_rate"])]
            if self.before and not self.is_comparable:
                row.append(f"{self.before[name].average:.2f} ({_percent(self.before_unknown[name])} <UNK>)")
            start = self.before[name] if self.is_comparable else self.start[name]
            change = f"{100 * (after.average / start.average - 1):+.1f} %"
            rows.append((*row, f"{start.average:.2f}", f"{after.average:.2f}", change, *_directions(after)))
        return rows

    def header(self) -> tuple[str, ...]:
        """Names of the columns."""
        columns = ["text", "words", "<UNK>"]
        if self.is_comparable:
            columns.append("before")
        else:
            columns += ["before, own vocabulary", "start"] if self.before else ["start"]
        return (*columns, "after", "change", "forward", "backward")

    def table(self) -> Table:
        """For a terminal."""
        table = Table(title="Perplexity of held-out text")
        for number, name in enumerate(self.header()):
            table.add_column(name, justify="right" if number else "left")
        for row in self.rows():
            table.add_row(*row)
        return table

    def json(self) -> dict[str, Any]:
        """For a file."""
        return {
            "model": self.model,
            "vocabulary": "keep" if self.keeps_vocabulary else "new",
            "head": self.head,
            "before_is_comparable": self.is_comparable,
            "explanation": self.explanation(),
            "before": {
                name: {**_numbers(self.before[name]), "oov_rate": self.before_unknown[name]} for name in self.before
            },
            "start": {name: _numbers(perplexity) for name, perplexity in self.start.items()},
            "after": {name: _numbers(perplexity) for name, perplexity in self.after.items()},
        }

    def section(self) -> str:
        """For the model card, in Markdown."""
        text = f"## Adapted from {self.model}\n\nThe softmax is {self.head}."
        if not self.after:
            return f"{text} No text was held out, so that there is no perplexity before and after."
        lines = [self.header(), ("---",) * len(self.header()), *self.rows()]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"{text}\n\n{table}\n\n{self.explanation()}".replace("<UNK>", "`<UNK>`").replace(
            "</S> forward, <S> backward", "`</S>` forward, `<S>` backward"
        )


def _directions(perplexity: Perplexity) -> tuple[str, str]:
    return f"{perplexity.forward:.2f}", f"{perplexity.backward:.2f}"


def _numbers(perplexity: Perplexity) -> dict[str, float]:
    return {
        "perplexity": perplexity.average,
        "forward_perplexity": perplexity.forward,
        "backward_perplexity": perplexity.backward,
        "predictions": perplexity.predictions,
    }


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
