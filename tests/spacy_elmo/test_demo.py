import io
import os
import re
import subprocess
import sys
import time

import pytest
import spacy
from rich.console import Console

from spacy_elmo.demo import DEMO_TEXTS, DEMO_WORDS, main, repeated_words

RIVER = "He sat on the bank of the river ."
MONEY = "He robbed the bank ."


def show(*arguments: str, width: int = 100) -> tuple[int, str]:
    """What the command returns and prints on a terminal of that width."""
    stream = io.StringIO()
    code = main(arguments, console=Console(file=stream, width=width, highlight=False))
    return code, stream.getvalue()


@pytest.fixture
def tiny(tiny_folder) -> tuple[str, str]:
    return "--model", str(tiny_folder)


def cosines(printed: str, row: int) -> list[float]:
    (line,) = [line for line in printed.splitlines() if re.match(rf"\W*{row} \W", line)]
    return [float(value) for value in re.findall(r"-?\d\.\d\d", line)]


def test_given_texts_show_their_repeated_word(tiny, make_nlp):
    code, printed = show(*tiny, RIVER, MONEY)
    assert code == 0
    assert '"bank", 2 occurrences' in printed
    nlp = make_nlp("sentencizer")
    expected = round(nlp(RIVER)[4].similarity(nlp(MONEY)[3]), 2)
    assert cosines(printed, 1) == [1.0, expected, 1.0]
    assert cosines(printed, 2) == [expected, 1.0, 1.0]


def test_the_static_vector_stands_beside(tiny):
    _, printed = show(*tiny, RIVER, MONEY)
    assert "static" in printed
    assert "same in every sentence: 1.00" in " ".join(printed.split())


def test_the_demonstration_shows_bark_and_bank_in_seconds():
    started = time.perf_counter()
    code, printed = show()
    assert code == 0
    assert time.perf_counter() - started < 10
    for word in DEMO_WORDS:
        assert f'"{word}", 4 occurrences' in printed


def test_the_shipped_model_tells_the_meanings_apart():
    """Sentences 1 and 2 share one meaning, 3 and 4 the other: on average they are nearer to each other."""
    _, printed = show()
    tables = re.split(r'(?m)^(?="ba)', printed)[1:]
    assert len(tables) == len(DEMO_WORDS)
    for table in tables:
        rows = [cosines(table, row)[:4] for row in (1, 2, 3, 4)]
        same = [rows[0][1], rows[2][3]]
        different = [rows[i][j] for i in (0, 1) for j in (2, 3)]
        assert sum(same) / 2 > sum(different) / 4, table


def test_each_demonstration_word_occurs_in_four_sentences():
    for word in DEMO_WORDS:
        assert sum(word in text.split() for text in DEMO_TEXTS) == 4


@pytest.mark.parametrize("width", [50, 60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(tiny, width):
    long = "In the quiet years before the flood nobody had thought of selling the old bank by the stream ."
    code, printed = show(*tiny, long, long.replace("old", "new"), RIVER, MONEY, "--word", "bank", width=width)
    assert code == 0
    assert len(cosines(printed, 1)) >= 3
    assert re.search(r"\d .*\bbank\b.* 1\.00", printed)
    assert max(len(line) for line in printed.splitlines()) <= width


def test_a_long_sentence_is_cut_around_the_word(tiny):
    long = "one two three four five six seven eight nine ten bank eleven twelve thirteen fourteen fifteen ."
    _, printed = show(*tiny, long, MONEY, "--word", "bank", width=80)
    (line,) = [line for line in printed.splitlines() if "bank eleven" in line]
    assert line.count("…") == 2
    assert "ten bank eleven" in line


def test_texts_without_a_repeated_word_get_advice(tiny):
    code, printed = show(*tiny, "Dogs bark .", "Cats purr .")
    assert code == 1
    assert "No word occurs twice in the 2 texts" in printed
    assert "python -m spacy_elmo" in printed


def test_one_text_may_repeat_a_word_itself(tiny):
    code, printed = show(*tiny, "The bank stood on the bank .")
    assert code == 0
    assert '"bank", 2 occurrences' in printed


def test_a_chosen_word_that_is_missing_is_named(tiny):
    code, printed = show(*tiny, RIVER, MONEY, "--word", "boat")
    assert code == 1
    assert "'boat': found 0" in printed


def test_many_repeated_words_are_listed(tiny):
    text = "red green blue black white brown ."
    code, printed = show(*tiny, text, text)
    assert code == 0
    assert printed.count(", 2 occurrences") == 4
    assert "Also repeated: white, brown" in printed


def test_more_occurrences_than_fit_are_counted(tiny):
    _, printed = show(*tiny, *[f"{letter} bank ." for letter in "abcdefghij"], width=80)
    assert "Not shown in so narrow a terminal: 5 more" in printed


def test_a_model_that_is_not_there_is_named(tmp_path):
    code, printed = show("--model", str(tmp_path / "nowhere"), width=1000)
    assert code == 1
    assert str(tmp_path / "nowhere") in printed


def test_content_words_come_before_the_of_and_and():
    nlp = spacy.blank("en")
    assert repeated_words([nlp("the bank of the river"), nlp("The Bank of gold")]) == ["bank"]
    assert repeated_words([nlp("the cat"), nlp("the dog")]) == ["the"]
    assert repeated_words([nlp("cat , ."), nlp("dog , .")]) == []


def test_the_command_line_runs(tiny_folder):
    finished = subprocess.run(
        [sys.executable, "-m", "spacy_elmo", "--model", str(tiny_folder), RIVER, MONEY],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert finished.returncode == 0, finished.stderr
    assert "bank" in finished.stdout
    assert finished.stderr == ""
