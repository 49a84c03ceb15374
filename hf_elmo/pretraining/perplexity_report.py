"""Perplexity of several held-out texts by initial state: measured, as a table, and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.table import Table

from hf_elmo.modeling_elmo import ElmoForPreTraining
from hf_elmo.perplexity import Perplexity
from hf_elmo.pretraining.first_sentences import first_sentences
from hf_elmo.pretraining.markdown import markdown_table, marked
from hf_elmo.pretraining.perplexity_by_state import perplexity_by_state
from hf_elmo.pretraining.shards import HELDOUT_PREFIX, PreparedCorpus


class TextPerplexity(NamedTuple):
    """Perplexities of one text.

    Attributes:
        text: its name.
        words, sentences: how many were read.
        oov_rate: share of the words outside the model's vocabulary.
        by_state: one perplexity for each way to begin a sentence.
    """

    text: str
    words: int
    sentences: int
    oov_rate: float
    by_state: Mapping[str, Perplexity]


def measure(
    model: ElmoForPreTraining,
    corpus: PreparedCorpus,
    splits: Iterable[str],
    *,
    states: Sequence[str],
    num_words: int | None = None,
    num_streams: int = 1,
    progress: Callable[[str], None] | None = None,
) -> list[TextPerplexity]:
    """Perplexities of several splits.

    Args:
        model, states, num_streams: as in `perplexity_by_state`.
        corpus: its first words are the model's vocabulary.
        splits: which parts of it.
        num_words: read each from its beginning to the end of the sentence in which so many words are reached.
        progress: called with a few words before each measurement.

    Raises:
        ValueError: see `perplexity_by_state`.
    """
    measured = []
    for split in splits:
        text = split.removeprefix(HELDOUT_PREFIX)
        part = first_sentences(corpus, split, num_words)
        by_state: dict[str, Perplexity] = {}
        for state in states:
            if progress is not None:
                progress(f"{text}, {state}")
            by_state |= perplexity_by_state(model, part, split, states=[state], num_streams=num_streams)
        report = part.split_report(split)
        measured.append(TextPerplexity(text, report["tokens"], report["sentences"], report["oov_rate"], by_state))
    return measured


def conventions(measured: Sequence[TextPerplexity], *, vocab_size: int, num_streams: int) -> str:
    """What the figures mean, as one paragraph."""
    states = {state for text in measured for state in text.by_state}
    begin = {
        "zero": "zero: each sentence is read by itself, from a state of zeros.",
        "warm": "warm: each by itself, from the state stored with the model.",
        "carry": "carry: each in the state that the sentence before left"
        + ("." if num_streams == 1 else f", in {num_streams} parallel streams to which the sentences are dealt out."),
    }
    same = " All predict the same words." if len(states) > 1 else ""
    return (
        f"By the full softmax over {vocab_size:,} words: every word and every sentence's closing boundary (</S> "
        "forward, <S> backward) is predicted once in each direction; words outside the vocabulary count as the one "
        "word <UNK>. "
        "The perplexity is the root of forward times backward. "
        + " ".join(text for state, text in begin.items() if state in states)
        + same
    )


def table(measured: Sequence[TextPerplexity]) -> Table:
    """For a terminal: a section for each text, a row for each state."""
    shown = Table()
    for number, name in enumerate(("text", "words", "<UNK>", "state", "perplexity", "forward", "backward")):
        shown.add_column(name, justify="left" if number in (0, 3) else "right")
    for text in measured:
        about = (text.text, f"{text.words:,}", f"{100 * text.oov_rate:.1f} %")
        for state, result in text.by_state.items():
            values = (f"{value:.2f}" for value in (result.average, result.forward, result.backward))
            shown.add_row(*about, state, *values)
            about = ("", "", "")
        shown.add_section()
    return shown


def in_markdown(measured: Sequence[TextPerplexity], explanation: str) -> list[str]:
    """For a model card: the averages in a table, and what they mean."""
    rows = [
        (text.text, f"{text.words:,}", state, f"{result.average:.2f}")
        for text in measured
        for state, result in text.by_state.items()
    ]
    return [markdown_table(("text", "words", "state", "perplexity"), rows), marked(explanation)]


def as_json(measured: Sequence[TextPerplexity]) -> dict[str, Any]:
    """By text: how much of it was read, and the perplexities by state."""
    return {
        text.text: {
            "words": text.words,
            "sentences": text.sentences,
            "oov_rate": text.oov_rate,
            "states": {state: numbers(result) for state, result in text.by_state.items()},
        }
        for text in measured
    }


def numbers(result: Perplexity) -> dict[str, float]:
    """A perplexity under the names that files have for it."""
    return {
        "perplexity": result.average,
        "forward_perplexity": result.forward,
        "backward_perplexity": result.backward,
        "predictions_per_direction": result.predictions,
    }
