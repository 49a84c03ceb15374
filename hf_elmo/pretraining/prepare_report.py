"""What is written about a prepared corpus: counts of words, sentences, documents, cut and unknown words."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np

from hf_elmo.pretraining.first_pass import SplitTotals
from hf_elmo.pretraining.prepare_options import PrepareOptions


def split_report(split: SplitTotals, counts: np.ndarray, is_cut: np.ndarray, vocab_size: int) -> dict[str, Any]:
    """Figures of one split; `counts` (words,) its words in the table's order, `is_cut` (words,) which are too long."""
    tokens = split.total("tokens")
    sentences = split.total("sentences")
    sources = {
        name: {
            "tokens": source.tokens,
            "sentences": source.sentences,
            "documents": source.documents,
            "times": source.times,
            "share": round(source.tokens / max(1, tokens), 6),
        }
        for name, source in split.sources.items()
    }
    return {
        "tokens": tokens,
        "sentences": sentences,
        "documents": split.total("documents"),
        "predictions_per_direction": tokens + sentences,
        "distinct_words": int((counts > 0).sum()),
        "oov_tokens": int(counts[vocab_size:].sum()),
        "oov_rate": round(int(counts[vocab_size:].sum()) / max(1, tokens), 6),
        "cut_tokens": int(counts[is_cut].sum()),
        "cut_distinct_words": int((counts[is_cut] > 0).sum()),
        "sources": sources,
    }


def tokeniser_description(kinds: set[bool], options: PrepareOptions) -> str:
    """Which tokeniser made the tokens; `kinds` says whether some sources came with tokens of their own."""
    parts = []
    if False in kinds:
        parts.append(f'spaCy {version("spacy")} blank("{options.language}") with sentencizer')
    if True in kinds:
        parts.append("tokenised sentences as given, split at white space")
    return "; ".join(parts)


def describe_report(report: dict[str, Any]) -> str:
    """The report as a few lines for a person."""
    lines = [
        f"words.txt: {report['distinct_words']:,} distinct words, LM vocabulary {report['vocab_size']:,}; "
        f"tokens: {report['tokeniser']}"
    ]
    for name, split in report["splits"].items():
        lines.append(
            f"{name}: {split['tokens']:,} words, {split['sentences']:,} sentences, "
            f"{split['documents']:,} documents, {len(split['files'])} shards; "
            f"outside the vocabulary {100 * split['oov_rate']:.2f} %, "
            f"cut at {report['max_characters_per_word'] - 2} bytes {split['cut_tokens']:,} "
            f"({split['cut_distinct_words']:,} distinct)"
        )
        if len(split["sources"]) > 1:
            lines += [
                f"    {source}: {part['tokens']:,} words ({100 * part['share']:.1f} %), {part['documents']:,} documents"
                + (f", each read {part['times']} times" if part.get("times", 1) > 1 else "")
                for source, part in split["sources"].items()
            ]
    return "\n".join(lines)
