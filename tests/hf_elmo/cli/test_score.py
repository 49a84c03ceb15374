"""The tables of `hf-elmo score`; their numbers are tested in test_score.py and test_substitutes.py."""

import csv
import json
from pathlib import Path

import pytest

from hf_elmo import ElmoModel
from hf_elmo.cli.main import main
from hf_elmo.score import score
from hf_elmo.substitutes import substitutes
from tests.hf_elmo.language_models import SENTENCES, language_model


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return language_model(tmp_path_factory.mktemp("weights"))


@pytest.fixture(scope="module")
def folder(lm, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("score")
    for part in lm:
        part.save_pretrained(folder / "lm")
    (folder / "text.txt").write_text("".join(" ".join(words) + "\n" for words in SENTENCES), encoding="utf-8")
    return folder


def run(folder: Path, *flags: str) -> int:
    return main(["score", str(folder / "text.txt"), "--model", str(folder / "lm"), *flags])


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))


def test_a_row_a_word(folder, lm, capsys):
    assert run(folder) == 0
    captured = capsys.readouterr()
    found = iter(table(captured.out))
    for number, result in enumerate(score(*lm, SENTENCES)):
        if not result.words:
            continue
        first = next(found)
        assert first == {
            "sentence": str(number),
            "position": "-1",
            "word": "<S>",
            "known": "1",
            "forward": "",
            "backward": f"{result.begin:.6f}",
        }
        for place, word in enumerate(result.words):
            row = next(found)
            assert (row["sentence"], row["position"], row["word"]) == (str(number), str(place), word)
            assert row["known"] == str(int(result.is_known[place]))
            assert float(row["forward"]) == pytest.approx(result.forward[place], abs=1e-6)
            assert float(row["backward"]) == pytest.approx(result.backward[place], abs=1e-6)
        last = next(found)
        assert (last["position"], last["word"], last["backward"]) == (str(len(result.words)), "</S>", "")
        assert float(last["forward"]) == pytest.approx(result.end, abs=1e-6)
    assert list(found) == []
    assert "5 sentences, 18 words, 7 of them outside the vocabulary; perplexity forward" in captured.err


def test_a_row_a_sentence(folder, lm, capsys):
    assert run(folder, "--by", "sentence") == 0
    rows = table(capsys.readouterr().out)
    assert len(rows) == len(SENTENCES)
    for row, result in zip(rows, score(*lm, SENTENCES), strict=True):
        assert int(row["words"]) == len(result.words)
        assert int(row["unknown"]) == result.is_known.count(False)
        assert float(row["forward"]) == pytest.approx(result.forward_sum, abs=1e-6)
        assert float(row["backward"]) == pytest.approx(result.backward_sum, abs=1e-6)
        if result.words:
            assert float(row["forward_perplexity"]) == pytest.approx(result.forward_perplexity, abs=1e-6)
            assert float(row["backward_perplexity"]) == pytest.approx(result.backward_perplexity, abs=1e-6)
    assert rows[2]["forward_perplexity"] == rows[2]["backward_perplexity"] == ""


def test_json(folder, lm, capsys):
    assert run(folder, "--format", "jsonl") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for number, (row, result) in enumerate(zip(found, score(*lm, SENTENCES), strict=True)):
        assert row["sentence"] == number
        assert row["words"] == SENTENCES[number]
        assert row["known"] == result.is_known
        assert row["forward"] == pytest.approx(result.forward.tolist(), abs=1e-6)
        assert row["backward"] == pytest.approx(result.backward.tolist(), abs=1e-6)
        assert row["forward_sum"] == pytest.approx(sum(row["forward"]) + row["end_forward"], abs=1e-5)
        assert row["backward_sum"] == pytest.approx(sum(row["backward"]) + row["begin_backward"], abs=1e-5)
    assert found[2]["forward_perplexity"] is None
    assert run(folder, "--format", "jsonl", "--by", "sentence") == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert "words" not in first
    assert first["num_words"] == 8
    assert first["forward_sum"] == found[0]["forward_sum"]


def test_substitutes(folder, lm, capsys):
    assert run(folder, "--substitutes", "3", "--word", "dog", "--minus-unigram", "0.5") == 0
    rows = table(capsys.readouterr().out)
    assert {(row["sentence"], row["position"], row["word"]) for row in rows} == {("0", "1", "dog")}
    assert [row["rank"] for row in rows] == ["1", "2", "3"]
    for row, expected in zip(rows, substitutes(*lm, SENTENCES[0], 1, 3, unigram_weight=0.5), strict=True):
        assert row["substitute"] == expected.word
        for name in ("score", "forward", "backward"):
            assert float(row[name]) == pytest.approx(getattr(expected, name), abs=1e-5)


def test_substitutes_by_index_in_json(folder, lm, capsys):
    assert run(folder, "--substitutes", "2", "--word", "2", "--format", "jsonl") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [[place["position"] for place in row["substitutes"]] for row in found] == [[2], [], [], [2], [2]]
    (place,) = found[4]["substitutes"]
    assert place["word"] == "."
    assert [candidate["word"] for candidate in place["candidates"]] == [
        substitute.word for substitute in substitutes(*lm, SENTENCES[4], 2, 2)
    ]


def test_a_number_in_quotes_is_a_word(folder, capsys, tmp_path):
    (tmp_path / "numbers.txt").write_text("a 7 .\n")
    flags = ["--model", str(folder / "lm"), "--substitutes", "1", "--word", '"7"']
    assert main(["score", str(tmp_path / "numbers.txt"), *flags]) == 0
    assert [row["position"] for row in table(capsys.readouterr().out)] == ["1"]


def test_to_a_file(folder, tmp_path, capsys):
    out = tmp_path / "new" / "scores.tsv"
    assert run(folder, "--out", str(out)) == 0
    assert capsys.readouterr().out == ""
    before = out.read_bytes()
    assert run(folder, "--out", str(out)) == 2
    assert "is there already; choose another name" in capsys.readouterr().err
    assert out.read_bytes() == before
    assert run(folder, "--out", str(out), "--by", "sentence", "--overwrite") == 0
    assert out.read_bytes() != before
    assert [path.name for path in out.parent.iterdir()] == ["scores.tsv"]


def test_to_the_file_that_a_link_names(folder, tmp_path):
    real, link = tmp_path / "disk" / "scores.tsv", tmp_path / "link.tsv"
    real.parent.mkdir()
    link.symlink_to(real)
    for flags in ([], ["--overwrite", "--by", "sentence"]):
        assert run(folder, "--out", str(link), *flags) == 0
        assert link.readlink() == real
    assert len(table(real.read_text(encoding="utf-8"))) == len(SENTENCES)
    assert [path.name for path in real.parent.iterdir()] == ["scores.tsv"]


def test_nothing_half_written(folder, tmp_path, capsys):
    (tmp_path / "text.txt").write_bytes(b"a dog\n" * 3 + b"\xff\n")
    out = tmp_path / "scores.tsv"
    assert main(["score", str(tmp_path / "text.txt"), "--model", str(folder / "lm"), "--out", str(out)]) == 2
    assert "line 4: got bytes ff" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--word", "dog"], "--word and --minus-unigram: got one without --substitutes"),
        (["--substitutes", "0"], "top: got 0; expected 1 or more"),
        (["--substitutes", "1", "--word", "zebras"], "--word: got zebras; expected the index of a word, or a word"),
        (["--substitutes", "1", "--word", "99"], "--word: got 99"),
        (["--batch-words", "0"], "max_words_per_batch: got 0"),
        (["--device", "nonsense"], "--device: got 'nonsense'"),
        (["--language", "de"], "got one without --raw"),
    ],
)
def test_flags_that_do_not_fit(folder, capsys, flags, message):
    assert run(folder, *flags) == 2
    assert message in capsys.readouterr().err


def test_no_text_and_no_softmax(folder, tmp_path, capsys):
    assert main(["score", str(tmp_path / "missing.txt"), "--model", str(folder / "lm")]) == 2
    assert "missing.txt: no such file" in capsys.readouterr().err
    (tmp_path / "empty.txt").write_text("\n")
    assert main(["score", str(tmp_path / "empty.txt"), "--model", str(folder / "lm")]) == 2
    assert "got no word to predict" in capsys.readouterr().err
    ElmoModel.from_pretrained(folder / "lm").save_pretrained(tmp_path / "no-softmax")
    assert main(["score", str(folder / "text.txt"), "--model", str(tmp_path / "no-softmax")]) == 2
    assert "hf-elmo publish --with-lm-head" in capsys.readouterr().err


def test_the_package_has_a_model(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("the dog .\n")
    outputs = []
    for flags in ([], ["--model", "default"]):
        assert main(["score", str(tmp_path / "text.txt"), *flags]) == 0
        outputs.append(capsys.readouterr().out)
    assert [row["known"] for row in table(outputs[0])] == ["1"] * 5
    assert outputs[0] == outputs[1]
