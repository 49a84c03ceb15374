"""SQuAD's two measures, exact match and F1 of words (Rajpurkar et al. 2016, section 6.1)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def squad_metrics(predictions: Mapping[str, str], answers: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Means over all questions, in per cent; a question without a prediction counts as wrong.

    Args:
        predictions: by the question's id.
        answers: by the question's id all answers that count as right; the best fit is taken.

    Returns:
        `exact_match` and `f1`

    Raises:
        ValueError: no question, one without an answer, or a prediction for none of them.
    """
    if not answers or not all(answers.values()):
        raise ValueError("answers: got no question, or one without an answer; expected at least one for each.")
    strangers = [name for name in predictions if name not in answers]
    if strangers:
        raise ValueError(f"predictions: got one for {strangers[0]!r}; expected those of the questions only.")
    exact = f1 = 0.0
    for name, golds in answers.items():
        if name in predictions:
            exact += max(exact_match(predictions[name], gold) for gold in golds)
            f1 += max(word_f1(predictions[name], gold) for gold in golds)
    return {"exact_match": 100 * exact / len(answers), "f1": 100 * f1 / len(answers)}


def exact_match(prediction: str, answer: str) -> bool:
    """Whether both are the same after `normalised`."""
    return normalised(prediction) == normalised(answer)


def word_f1(prediction: str, answer: str) -> float:
    """Harmonic mean of precision and recall of the words after `normalised`, each counted as often as it occurs."""
    predicted, expected = normalised(prediction).split(), normalised(answer).split()
    shared = (Counter(predicted) & Counter(expected)).total()
    return 2 * shared / (len(predicted) + len(expected)) if shared else 0.0


def normalised(text: str) -> str:
    """Lower case, without ASCII punctuation, the articles a, an, the, and superfluous white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())
