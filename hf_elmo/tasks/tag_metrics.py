"""Precision, recall and F1 of tagged spans by seqeval, and accuracy of plain tags."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

Tags = Sequence[Sequence[str]]


def span_metrics(gold: Tags, predicted: Tags) -> dict[str, float]:
    """Over all spans `precision`, `recall` and `f1`, and over all words `accuracy`, each from 0 to 1.

    seqeval's default mode, which counts as the CoNLL-2000 and 2003 evaluations do.

    Raises:
        ImportError: seqeval is not installed.
    """
    seqeval = _seqeval()
    with warnings.catch_warnings():  # of a class that is never predicted: its score is 0
        warnings.simplefilter("ignore")
        return {
            "precision": float(seqeval.precision_score(gold, predicted)),
            "recall": float(seqeval.recall_score(gold, predicted)),
            "f1": float(seqeval.f1_score(gold, predicted)),
            "accuracy": float(seqeval.accuracy_score(gold, predicted)),
        }


def span_report(gold: Tags, predicted: Tags) -> str:
    """The same for each type of span, as a table.

    Raises:
        ImportError: seqeval is not installed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return str(_seqeval().classification_report(gold, predicted, digits=4))


def tag_accuracy(gold: Tags, predicted: Tags) -> dict[str, float]:
    """The share of words with the right tag."""
    pairs = [pair for golds, guesses in zip(gold, predicted, strict=True) for pair in zip(golds, guesses, strict=True)]
    return {"accuracy": sum(one == other for one, other in pairs) / max(1, len(pairs))}


def _seqeval():  # type: ignore[no-untyped-def]
    try:
        import seqeval.metrics
    except ImportError as error:
        raise ImportError('the metrics need seqeval: pip install "spacy-elmo[train]"') from error
    return seqeval.metrics
