"""SQuAD 1.1: a question, a context, and the answer as a span of it."""

import json
from pathlib import Path
from typing import NamedTuple


class Question(NamedTuple):
    """A question with its context; the answers' texts, and where the first of them begins."""

    question: str
    context: str
    answers: list[str]
    start: int


def read_squad(path: Path) -> list[Question]:
    """Every question of every paragraph.

    Raises:
        ValueError: a file of another form; an answer that is not where it is said to be.
    """
    try:
        articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path}: got no SQuAD file ({error}); expected JSON with a list `data`.") from error
    questions = []
    for article in articles:
        for paragraph in article["paragraphs"]:
            context = paragraph["context"]
            for entry in paragraph["qas"]:
                first = entry["answers"][0]
                start = first["answer_start"]
                if context[start : start + len(first["text"])] != first["text"]:
                    raise ValueError(f"{path}: question {entry['id']}: the answer is not at {start}.")
                answers = [answer["text"] for answer in entry["answers"]]
                questions.append(Question(entry["question"], context, answers, start))
    return questions
