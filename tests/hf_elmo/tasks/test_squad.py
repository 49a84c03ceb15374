"""SQuAD's files and its two measures."""

import json
from pathlib import Path
from typing import Any

import pytest

from hf_elmo.tasks.squad import Answer, read_squad
from hf_elmo.tasks.squad_metrics import exact_match, normalised, squad_metrics, word_f1

CONTEXT = "The dog let out a sharp bark."


def squad(answers: Any, **changes: Any) -> dict[str, Any]:
    question = {"id": "q1", "question": "What did the dog do?", "answers": answers, **changes}
    return {"version": "1.1", "data": [{"title": "Dogs", "paragraphs": [{"context": CONTEXT, "qas": [question]}]}]}


def test_reading(tmp_path: Path) -> None:
    answers = [
        {"text": "bark", "answer_start": 24},
        {"text": "sharp bark", "answer_start": 18},
        {"text": "sharp bark", "answer_start": 18},
    ]
    (tmp_path / "a.json").write_text(json.dumps(squad(answers)), encoding="utf-8")
    (question,) = read_squad(tmp_path / "a.json")
    assert (question.id, question.question, question.context) == ("q1", "What did the dog do?", CONTEXT)
    assert question.usual_answer == Answer("sharp bark", 18)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"data":\n [1,}', "a.json: line 2: got something that is no JSON"),
        ("[]", "a.json: got list; expected an object with 'data'"),
        ('{"data": []}', "a.json: got no question"),
        ('{"data": [{}]}', r"a.json: data\[0\]: got 'paragraphs' of NoneType"),
        (squad([]), r"a.json: data\[0\].paragraphs\[0\].qas\[0\]: got a question without an answer"),
        (squad([{"text": "bark", "answer_start": 23}]), r"qas\[0\].answers\[0\]: got the answer 'bark' .* has ' bar'"),
        (squad([{"text": "bark"}]), r"answers\[0\]: got 'answer_start' of NoneType"),
    ],
)
def test_malformed_files(tmp_path: Path, content: Any, message: str) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_squad(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Cat, an owl!", "cat owl"),
        ("a-b (the c)", "ab c"),
        ("Anthem theory", "anthem theory"),
        ("“Quoted”", "“quoted”"),  # ASCII punctuation only
        ("the", ""),
    ],
)
def test_normalised(text: str, expected: str) -> None:
    assert normalised(text) == expected


def test_the_measures() -> None:
    assert exact_match("The U.S.", "us")
    assert not exact_match("United States", "the US")
    # Two of three words against two of two; a word counts as often as it occurs in both.
    assert word_f1("very sharp bark", "sharp bark") == pytest.approx(2 * (2 / 3) * 1 / (2 / 3 + 1))
    assert word_f1("bark bark", "bark") == pytest.approx(2 * 0.5 * 1 / 1.5)
    assert word_f1("dog", "cat") == 0.0
    # The answer is nothing but an article: 0, as in the official program, although it is an exact match.
    assert (word_f1("the", "the"), exact_match("the", "the")) == (0.0, True)


def test_the_best_of_several_answers_counts_and_what_is_missing_is_wrong() -> None:
    answers = {"1": ["Paris", "the city of Paris"], "2": ["Rome"], "3": ["Oslo"]}
    metrics = squad_metrics({"1": "city of Paris", "2": "in Rome"}, answers)
    assert metrics == pytest.approx({"exact_match": 100 / 3, "f1": 100 * (1 + 2 / 3) / 3})
    with pytest.raises(ValueError, match="predictions: got one for '4'"):
        squad_metrics({"4": "x"}, answers)
    with pytest.raises(ValueError, match="answers: got no question, or one without an answer"):
        squad_metrics({}, {"1": []})


def test_real_file(shared_dir: Path) -> None:
    """Every answer of the file stands where the file says, and is its own best prediction."""
    questions = read_squad(shared_dir / "data" / "tasks" / "squad_devsplit" / "test.json")
    assert len(questions) == 2851
    golds = {question.id: [answer.text for answer in question.answers] for question in questions}
    assert squad_metrics({name: texts[0] for name, texts in golds.items()}, golds)["exact_match"] == 100
