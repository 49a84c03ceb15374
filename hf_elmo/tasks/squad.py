"""Questions with answers in a context: SQuAD's JSON, version 1 (Rajpurkar et al. 2016)."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """A stretch of the context, and the character at which it begins."""

    text: str
    start: int


class Question(NamedTuple):
    """A question on a context, and the answers that people gave.

    Attributes:
        id: as in the file.
        question, context: texts.
        answers: at least one.
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...]

    @property
    def usual_answer(self) -> Answer:
        """The one given most often, among equals the first."""
        return Counter(self.answers).most_common(1)[0][0]


def read_squad(path: str | Path) -> list[Question]:
    """All questions of a file, plain or `.gz`.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no JSON, with its line; or a part, which is named, that is not as in SQuAD 1.1, such as a question
            without an answer (SQuAD 2.0), or an answer that the context does not have where it says.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected SQuAD's JSON, plain or .gz.")
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig") as file:
            content = json.load(file)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: line {error.lineno}: got something that is no JSON ({error.msg}).") from error
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: cannot be read as UTF-8 text: {error}.") from error
    questions = list(_questions(content, str(path)))
    if not questions:
        raise ValueError(f"{path}: got no question; expected some under data, paragraphs, qas.")
    return questions


def _questions(content: Any, where: str) -> Iterator[Question]:
    for article, at_article in _items(content, "data", where):
        for paragraph, at_paragraph in _items(article, "paragraphs", at_article):
            context = _value(paragraph, "context", str, at_paragraph)
            for question, at_question in _items(paragraph, "qas", at_paragraph):
                answers = tuple(
                    _answer(answer, context, at_answer)
                    for answer, at_answer in _items(question, "answers", at_question)
                )
                if not answers:
                    raise ValueError(
                        f"{at_question}: got a question without an answer; expected at least one, as in SQuAD 1.1 "
                        "(version 2 has questions that cannot be answered, which the head has no output for)."
                    )
                text = _value(question, "question", str, at_question)
                yield Question(str(_value(question, "id", str | int, at_question)), text, context, answers)


def _answer(answer: Any, context: str, where: str) -> Answer:
    text, start = _value(answer, "text", str, where), _value(answer, "answer_start", int, where)
    if not text.strip() or start < 0 or context[start : start + len(text)] != text:
        found = context[max(0, start) : max(0, start) + len(text)]
        raise ValueError(f"{where}: got the answer {text!r} at character {start}, where the context has {found!r}.")
    return Answer(text, start)


def _items(parent: Any, name: str, where: str) -> Iterator[tuple[Any, str]]:
    items = _value(parent, name, list, where)
    separator = ": " if name == "data" else "."
    return ((item, f"{where}{separator}{name}[{number}]") for number, item in enumerate(items))


def _value(parent: Any, name: str, kind: Any, where: str) -> Any:
    if not isinstance(parent, dict) or not isinstance(parent.get(name), kind):
        got = f"{name!r} of {type(parent.get(name)).__name__}" if isinstance(parent, dict) else type(parent).__name__
        raise ValueError(f"{where}: got {got}; expected an object with {name!r}, as in SQuAD's files.")
    return parent[name]
