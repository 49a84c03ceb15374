"""`hf-elmo train-qa` from SQuAD's JSON to a model and its answers."""

import json
import re
from pathlib import Path

import pytest

from hf_elmo import ElmoTokenizer
from hf_elmo.cli.main import main
from hf_elmo.tasks.qa import SpelledQuestions
from hf_elmo.tasks.squad import Answer, Question, read_squad
from hf_elmo.tasks.squad_metrics import squad_metrics
from tests.hf_elmo.tasks.folders import flags, squad

CONTEXT = "The dog's bark — a sharp one — woke us."


def question(text: str, start: int) -> Question:
    return Question("1", "What woke us?", CONTEXT, (Answer(text, start),))


def test_places_of_an_answer() -> None:
    """`<S> What woke us ? </S> <S> The dog 's bark ...`: the answer's words are those at its places."""
    tokenizer = ElmoTokenizer()
    start = CONTEXT.index("sharp one")
    encoded = SpelledQuestions(tokenizer)(question("sharp one", start))
    words = ["<S>", "What", "woke", "us", "?", "</S>", "<S>", *tokenizer.split_into_words(CONTEXT), "</S>"]
    assert len(encoded["input_ids"]) == len(words)
    assert words[encoded["start_positions"] : encoded["end_positions"] + 1] == ["sharp", "one"]


def test_a_cut_context() -> None:
    tokenizer = ElmoTokenizer()
    cut = SpelledQuestions(tokenizer, 5)  # The dog 's bark —
    encoded = cut(question("bark", CONTEXT.index("bark")))
    assert len(encoded["input_ids"]) == 6 + 1 + 5 + 1
    assert encoded["input_ids"][-1] == tokenizer.eos_token_id
    assert (encoded["start_positions"], encoded["end_positions"]) == (10, 10)
    beyond = question("sharp one", CONTEXT.index("sharp one"))
    assert cut.answer_words(beyond) is None
    assert cut(beyond)["start_positions"] == -1


def test_scores_to_text() -> None:
    """The best span is cut out of the context as it stands there."""
    import numpy as np

    spelled = SpelledQuestions(ElmoTokenizer())
    asked = question("sharp one", CONTEXT.index("sharp one"))
    encoded = spelled(asked)
    starts, ends = np.zeros((2, len(encoded["input_ids"]) + 4), np.float32)  # padded, as in a batch
    starts[0] = ends[-1] = 9  # not in the context
    starts[encoded["start_positions"]] = ends[encoded["end_positions"]] = 1
    assert spelled.answer(asked, starts, ends, 17) == "sharp one"
    assert spelled.answer(asked, starts, ends, 1) in ("sharp", "one")


@pytest.mark.slow
def test_it_learns_and_answers(tmp_path: Path) -> None:
    for number, name in enumerate(("train.json", "dev.json", "test.json")):
        (tmp_path / name).write_text(squad(60 if not number else 15, seed=number), encoding="utf-8")
    files = ("train.json", "dev.json", "test.json")
    more = ("--classifier_lstm_size", "8", "--elmo_placement", "both")
    assert main(["train-qa", *flags(tmp_path, "qa", *more, files=files)]) == 0
    metrics = json.loads((tmp_path / "qa" / "metrics.json").read_text())
    assert metrics["test_f1"] > 60  # one of four words by chance
    predictions = json.loads((tmp_path / "qa" / "test_predictions.json").read_text())
    golds = {q.id: [answer.text for answer in q.answers] for q in read_squad(tmp_path / "test.json")}
    assert squad_metrics(predictions, golds)["f1"] == pytest.approx(metrics["test_f1"])
    card = (tmp_path / "qa" / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```$", card, flags=re.MULTILINE | re.DOTALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        exec(compile(program, "README.md", "exec"), {})
    more = ("--no_elmo", "--classifier_lstm_size", "8")
    assert main(["train-qa", *flags(tmp_path, "static", *more, files=files[:1])]) == 0
    assert "static word vectors of" in (tmp_path / "static" / "README.md").read_text(encoding="utf-8")


def test_what_is_wrong_is_said_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text('{"data": [\n{"paragraphs": 3}]}')
    assert main(["train-qa", *flags(tmp_path, "qa", files=("a.json",))]) == 2
    assert "a.json: data[0]: got 'paragraphs' of int" in capsys.readouterr().err
    (tmp_path / "b.json").write_text(squad(3))
    assert main(["train-qa", *flags(tmp_path, "qa", "--max_context_words", "1", files=("b.json", "b.json"))]) == 2
    assert "max_context_words: got 1, beyond which all answers are" in capsys.readouterr().err
