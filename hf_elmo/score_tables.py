"""Scores and substitutes as lines of text: tab-separated with a head line, or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from hf_elmo.character_ids import BOS_WORD, EOS_WORD
from hf_elmo.modeling_elmo import ElmoForPreTraining
from hf_elmo.score import SentenceScore, Totals
from hf_elmo.substitutes import Substitute, sentence_substitutes
from hf_elmo.text_input import checked_words
from hf_elmo.tokenization_elmo import ElmoTokenizer

TableFormat = Literal["tsv", "jsonl"]
_DECIMALS = 6

_WORD_COLUMNS = ("sentence", "position", "word", "known", "forward", "backward")
_SENTENCE_COLUMNS = (
    "sentence",
    "words",
    "unknown",
    "forward",
    "backward",
    "forward_perplexity",
    "backward_perplexity",
)
_SUBSTITUTE_COLUMNS = ("sentence", "position", "word", "rank", "substitute", "score", "forward", "backward")


def score_lines(
    scores: Iterable[SentenceScore], totals: Totals, *, format: TableFormat, by: Literal["word", "sentence"]
) -> Iterator[str]:
    """A line a word or a sentence, or a JSON object a sentence; `totals` has counted them when the last is out."""
    if format == "tsv":
        yield "\t".join(_WORD_COLUMNS if by == "word" else _SENTENCE_COLUMNS)
    for number, score in enumerate(scores):
        totals.add(score)
        if format == "jsonl":
            yield _json(_sentence_object(number, score, with_words=by == "word"))
        elif by == "word":
            yield from _word_rows(number, score)
        else:
            yield _row(_sentence_values(number, score))


def substitute_lines(
    model: ElmoForPreTraining,
    tokenizer: ElmoTokenizer,
    sentences: Iterable[Sequence[str]],
    *,
    top: int,
    word: str | None = None,
    unigram_weight: float = 0.0,
    format: TableFormat = "tsv",
) -> Iterator[str]:
    """A line a substitute, or a JSON object a sentence.

    Args:
        model, tokenizer, top, unigram_weight: as in [`substitutes`][hf_elmo.substitutes.substitutes].
        sentences: lists of words.
        word: an index, or a word, which may be in double quotes; by default every word.
        format: of the lines.

    Raises:
        ValueError: no sentence has this word; what `substitutes` raises.
    """
    if format == "tsv":
        yield "\t".join(_SUBSTITUTE_COLUMNS)
    found_any = False
    for number, words in enumerate(sentences):
        words = checked_words(number, words)
        places = _places(words, word)
        found = sentence_substitutes(model, tokenizer, words, places, top, unigram_weight=unigram_weight)
        found_any = found_any or bool(places)
        if format == "jsonl":
            yield _json({"sentence": number, "words": words, "substitutes": _objects(words, places, found)})
            continue
        for place, candidates in zip(places, found, strict=True):
            for rank, (candidate, *figures) in enumerate(candidates, start=1):
                yield _row((number, place, words[place], rank, candidate, *figures))
    if word is not None and not found_any:
        raise ValueError(f"--word: got {word}; expected the index of a word, or a word, of at least one sentence.")


def _places(words: Sequence[str], word: str | None) -> list[int]:
    if word is None:
        return list(range(len(words)))
    if word.isdecimal():
        return [int(word)] if int(word) < len(words) else []
    quoted = len(word) > 2 and word[0] == word[-1] == '"'
    wanted = word[1:-1] if quoted else word
    return [place for place, candidate in enumerate(words) if candidate == wanted]


def _objects(words: Sequence[str], places: list[int], found: list[list[Substitute]]) -> list[dict[str, Any]]:
    return [
        {
            "position": place,
            "word": words[place],
            "candidates": [_rounded(candidate._asdict()) for candidate in candidates],
        }
        for place, candidates in zip(places, found, strict=True)
    ]


def _word_rows(number: int, score: SentenceScore) -> Iterator[str]:
    """The words between the two boundaries, each of which one direction predicts."""
    if not score.words:
        return
    yield _row((number, -1, BOS_WORD, 1, None, score.begin))
    rows = zip(score.words, score.is_known, score.forward.tolist(), score.backward.tolist(), strict=True)
    for place, (word, known, forward, backward) in enumerate(rows):
        yield _row((number, place, word, int(known), forward, backward))
    yield _row((number, len(score.words), EOS_WORD, 1, score.end, None))


def _sentence_values(number: int, score: SentenceScore) -> tuple[Any, ...]:
    return (
        number,
        len(score.words),
        score.is_known.count(False),
        score.forward_sum,
        score.backward_sum,
        score.forward_perplexity,
        score.backward_perplexity,
    )


def _sentence_object(number: int, score: SentenceScore, *, with_words: bool) -> dict[str, Any]:
    words = {
        "words": score.words,
        "known": score.is_known,
        "forward": score.forward.tolist(),
        "end_forward": score.end,
        "backward": score.backward.tolist(),
        "begin_backward": score.begin,
    }
    sums = {
        "unknown": score.is_known.count(False),
        "forward_sum": score.forward_sum,
        "backward_sum": score.backward_sum,
        "forward_perplexity": score.forward_perplexity,
        "backward_perplexity": score.backward_perplexity,
    }
    size = {} if with_words else {"num_words": len(score.words)}
    return _rounded({"sentence": number, **(words if with_words else {}), **size, **sums})


def _rounded(content: dict[str, Any]) -> dict[str, Any]:
    def rounded(value: Any) -> Any:
        if isinstance(value, list):
            return [rounded(item) for item in value]
        return round(value, _DECIMALS) if isinstance(value, float) else value

    return {name: rounded(value) for name, value in content.items()}


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False)


def _row(values: Iterable[Any]) -> str:
    return "\t".join(
        "" if value is None else f"{value:.{_DECIMALS}f}" if isinstance(value, float) else str(value)
        for value in values
    )
