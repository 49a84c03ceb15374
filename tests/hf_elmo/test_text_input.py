import gzip
import io
import sys

import pytest

from hf_elmo.text_input import TextInput, checked_words

TEXT = "The dog barked .\n\nnaïve  東京\t.\r\n last one"
SENTENCES = [["The", "dog", "barked", "."], [], ["naïve", "東京", "."], ["last", "one"]]


@pytest.mark.parametrize("name", ["text.txt", "text.txt.gz"])
def test_a_line_is_a_sentence(tmp_path, name):
    content = TEXT.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    text = TextInput(tmp_path / name)
    assert list(text) == SENTENCES
    assert text.bytes_read == text.bytes_total == (tmp_path / name).stat().st_size
    assert list(text) == SENTENCES


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    text = TextInput("-")
    assert list(text) == SENTENCES
    assert text.bytes_total == 0


def test_how_far_it_is_read(tmp_path):
    (tmp_path / "text.txt").write_text("some words\n" * 100_000)
    text = TextInput(tmp_path / "text.txt")
    positions = [text.bytes_read for _ in text]
    assert positions == sorted(positions)
    assert 0 < positions[0] < text.bytes_total / 2
    assert positions[-1] == text.bytes_total


def test_a_byte_order_mark_is_no_part_of_a_word(tmp_path):
    (tmp_path / "text.txt").write_text("one\n\ufefftwo\n", encoding="utf-8-sig")
    assert list(TextInput(tmp_path / "text.txt")) == [["one"], ["\ufefftwo"]]


def test_an_empty_file(tmp_path):
    (tmp_path / "text.txt").touch()
    assert list(TextInput(tmp_path / "text.txt")) == []


@pytest.mark.parametrize(
    ("layout", "sentences"),
    [
        ("auto", [["Mr.", "Smith", "does", "n't", "bark", "."], ["He", "barked", "!"], ["Again", "."]]),
        ("paragraphs", [["Mr.", "Smith", "does", "n't"], ["bark", "."], ["He", "barked", "!"], ["Again", "."]]),
    ],
)
def test_raw_text_is_tokenised(tmp_path, layout, sentences):
    (tmp_path / "text.txt").write_text("Mr. Smith doesn't\nbark. He barked!\n\n\nAgain.\n")
    assert list(TextInput(tmp_path / "text.txt", raw=True, layout=layout)) == sentences


def test_raw_text_of_another_language(tmp_path):
    (tmp_path / "text.txt").write_text("Don't.\n")
    assert list(TextInput(tmp_path / "text.txt", raw=True)) == [["Do", "n't", "."]]
    assert list(TextInput(tmp_path / "text.txt", raw=True, language="xx")) == [["Don't", "."]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"fine\nna\xefve\n", "text.txt: line 2: got bytes ef 76 65 0a at byte 2 of the line; expected UTF-8 text"),
        ("a \ud800 b".encode("utf-8", "surrogatepass"), "line 1: got bytes ed a0 80 20 at byte 2"),
        (b"x" * (1 << 20) + b"y", "line 1: got more than 1,048,576 bytes; expected one sentence"),
    ],
)
@pytest.mark.parametrize("raw", [False, True])
def test_lines_that_are_no_text(tmp_path, content, message, raw):
    (tmp_path / "text.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(TextInput(tmp_path / "text.txt", raw=raw))


def test_gzip_that_is_cut_off_or_none(tmp_path):
    path = tmp_path / "text.txt.gz"
    for content in (gzip.compress(TEXT.encode())[:-9], TEXT.encode()):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"text.txt.gz: cannot be unpacked: .*; fetch the file again"):
            list(TextInput(path))


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing: no such file; expected a text file"):
        TextInput(tmp_path / "missing")
    with pytest.raises(FileNotFoundError, match="got a folder; expected a text file"):
        TextInput(tmp_path)


def test_options_that_are_none(tmp_path):
    (tmp_path / "text.txt").touch()
    with pytest.raises(ValueError, match="layout: got 'sentences'; expected one of auto, wrapped, paragraphs"):
        TextInput(tmp_path / "text.txt", layout="sentences")  # type: ignore[arg-type]
    with pytest.raises(ImportError, match="zz"):
        TextInput(tmp_path / "text.txt", raw=True, language="zz")


def test_checked_words():
    assert checked_words(0, ("a", "")) == ["a", ""]
    with pytest.raises(ValueError, match=r"sentence 4: word 1 is '\\ud800'"):
        checked_words(4, ["a", "\ud800"])
    for sentence, message in (("text", "sentence 2: got the string 'text'"), ([b"a"], "sentence 2: word 0")):
        with pytest.raises(TypeError, match=message):
            checked_words(2, sentence)
