import torch
from experiments.question_answering import best_span, normalised, split_question, word_f1
from experiments.readers.squad import Question
from hypothesis import given
from hypothesis import strategies as st

_SCORES = st.lists(st.integers(-3, 3), min_size=1, max_size=30)


def test_answers_as_squad_compares_them() -> None:
    assert normalised(" The  U.S. Army, a force ") == "us army force"
    assert normalised("Theatre and an Anthem") == "theatre and anthem"
    assert word_f1("the red dog", "a red, red cat") == 2 * 1 / (2 + 3)
    assert word_f1("the", "a cat") == 0.0
    assert word_f1("Rome", "rome.") == 1.0


def test_answer_in_words() -> None:
    context = "He (the king) died in 1066, they say."
    question = Question("When?", context, ["1066"], context.index("1066"))
    split = split_question(question)
    assert split.context[split.start : split.end] == ["1066"]
    begin, end = split.offsets[split.start][0], split.offsets[split.end - 1][1]
    assert context[begin:end] == "1066"
    longer = split_question(question._replace(answers=["the king) died"], start=context.index("the king")))
    assert longer.context[longer.start : longer.end] == ["the", "king", ")", "died"]


@given(_SCORES, st.data())
def test_best_span_is_the_best_of_all(start: list[int], data: st.DataObject) -> None:
    end = data.draw(st.lists(st.integers(-3, 3), min_size=len(start), max_size=len(start)))
    first, last = best_span(torch.tensor(start, dtype=torch.float), torch.tensor(end, dtype=torch.float))
    every = [start[i] + end[j] for i in range(len(start)) for j in range(i, min(len(start), i + 17))]
    assert 0 <= first <= last < min(len(start), first + 17)
    assert start[first] + end[last] == max(every)
