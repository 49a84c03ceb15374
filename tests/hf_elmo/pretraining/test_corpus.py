import gzip
from pathlib import Path

import pytest

from hf_elmo.pretraining.corpus import (
    Source,
    SpacySentences,
    TextLines,
    decide_layout,
    find_files,
    join_wrapped_lines,
    read_documents,
    tokenise_given,
)

WRAPPED = """It sometimes happens that a woman is handsomer at twenty-nine than she
was ten years before; and, generally speaking, if there has been
neither ill health nor anxiety, it is a time of life at which scarcely
any charm is lost.

It was so with Elizabeth, still the same handsome
Miss Elliot that she had begun to be thirteen years ago.
"""
PARAGRAPHS = """"How kindly considerate!" returned Lady Clarissa.
"If any thing can keep Spite quiet," resumed the knight, "it is whistling to him."
Obedient to the true meaning of the signal, however, the dog sprang forward.
"""


def paragraphs_of(source: Source, **options) -> list[list[str]]:
    return [list(document.paragraphs()) for document in read_documents(source, **options)]


class TestSource:
    def test_name_comes_from_the_last_part(self):
        assert Source.parse("/texts/my books/") == Source("my_books", "/texts/my books/", "auto")
        assert Source.parse("/texts/a.txt.gz").name == "a"

    def test_name_and_layout_are_read(self):
        assert Source.parse("web:sentences=/a=b.txt") == Source("web", "/a=b.txt", "sentences")
        assert Source.parse("web=x", layout="wrapped") == Source("web", "x", "wrapped")
        assert Source.parse("web:paragraphs*8=x") == Source("web", "x", "paragraphs", times=8)
        assert Source.parse("web*3=x") == Source("web", "x", times=3)

    def test_a_path_with_an_equals_sign_that_exists_is_a_path(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("a=b").write_text("x")
        assert Source.parse("a=b").location == "a=b"

    def test_a_dataset_with_a_query_is_not_taken_apart(self):
        location = "hf://wikitext?config=wikitext-2-v1&split=test"
        assert Source.parse(location) == Source("wikitext", location, "auto")
        assert Source.parse(f"wiki={location}") == Source("wiki", location, "auto")

    @pytest.mark.parametrize("text", ["web:lines=x", "=x", "web=", "web*0=x", "web*=x", "web*a=x"])
    def test_what_cannot_be_read_is_named(self, text):
        with pytest.raises(ValueError, match="expected"):
            Source.parse(text)


class TestLayout:
    def test_wrapped_and_paragraphs(self):
        assert decide_layout(WRAPPED.split("\n")) == "wrapped"
        assert decide_layout(PARAGRAPHS.split("\n")) == "paragraphs"

    def test_blank_line_after_every_paragraph_is_not_wrapping(self):
        assert decide_layout(PARAGRAPHS.replace("\n", "\n\n").split("\n")) == "paragraphs"

    def test_long_lines_are_paragraphs_even_without_a_full_stop(self):
        assert decide_layout(["and so " * 40, "on and " * 40, "on"]) == "paragraphs"

    def test_benchmark_file_names_mean_sentences(self):
        assert decide_layout(WRAPPED.split("\n"), "news.en-00001-of-00100") == "sentences"

    @pytest.mark.parametrize(
        ("folder", "expected"),
        [
            ("novels/heldout", {"wrapped"}),
            ("novels_more/train", {"paragraphs"}),
            ("textbooks/train", {"paragraphs"}),
        ],
    )
    def test_on_real_files(self, shared_dir, folder, expected):
        documents = read_documents(Source("x", str(shared_dir / "data" / "corpora" / folder)))
        assert {document.layout for document in documents} == expected

    def test_joining(self):
        joined = [" ".join(text.split()) for text in join_wrapped_lines(WRAPPED.split("\n"))]
        assert len(joined) == 2
        assert joined[1].startswith("It was so with Elizabeth, still the same handsome Miss Elliot that she had")

    def test_a_word_broken_at_its_hyphen_is_joined_and_a_dash_is_not(self):
        assert (
            "".join(join_wrapped_lines(["a large alto-", "relief -", "so --", "yes"]))
            == "a large alto-relief - so -- yes "
        )

    def test_text_without_blank_lines_is_cut_at_sentence_ends(self):
        lines = ["so it went on and on until", "it stopped."] * 2_000
        parts = list(join_wrapped_lines(lines))
        assert max(map(len, parts)) < 10_100
        assert all(part.endswith("stopped. ") for part in parts)
        assert "".join(parts) == "".join(line + " " for line in lines)


class TestTextLines:
    def test_plain_and_gzip_give_the_same(self, tmp_path):
        text = "é a\r\n\nb " * 1000 + "last"
        (tmp_path / "a.txt").write_bytes(text.encode())
        (tmp_path / "b.txt.gz").write_bytes(gzip.compress(text.encode()))
        plain, packed = (list(TextLines(tmp_path / name)) for name in ("a.txt", "b.txt.gz"))
        assert plain == packed == text.split("\n")

    @pytest.mark.parametrize("before", [0, 5, (1 << 20) - 1, 1 << 20, 3_000_000])
    def test_undecodable_bytes_name_file_and_offset(self, tmp_path, before):
        path = tmp_path / "bad.txt"
        path.write_bytes(b"x" * before + b"\xe9t\xe9")
        with pytest.raises(ValueError, match=rf"bad\.txt.* e9 74 e9 at byte offset {before},.*--encoding"):
            list(TextLines(path))

    def test_character_cut_by_the_block_edge_and_other_encodings(self, tmp_path):
        text = "x" * ((1 << 20) - 1) + "é end"
        for encoding in ("utf-8", "utf-16", "latin-1", "utf-8-sig"):
            (tmp_path / "t.txt").write_bytes(text.encode(encoding))
            reading = "utf-8" if encoding == "utf-8-sig" else encoding
            assert "".join(TextLines(tmp_path / "t.txt", encoding=reading)) == text

    def test_errors_can_be_replaced(self, tmp_path):
        (tmp_path / "t.txt").write_bytes(b"a\xff b")
        assert list(TextLines(tmp_path / "t.txt", errors="replace")) == ["a\ufffd b"]

    def test_broken_gzip_is_named(self, tmp_path):
        path = tmp_path / "t.txt.gz"
        whole = gzip.compress(bytes(range(256)) * 1000)
        for broken in (whole[:-20], b"plain text", whole[:300] + b"x" * 300 + whole[600:]):
            path.write_bytes(broken)
            with pytest.raises(ValueError, match=r"t\.txt\.gz: cannot be unpacked"):
                list(TextLines(path, encoding="latin-1"))

    def test_a_line_without_end_is_cut_at_a_space(self, tmp_path):
        text = "word " * 500_000
        (tmp_path / "t.txt").write_text(text)
        lines = list(TextLines(tmp_path / "t.txt"))
        assert len(lines) > 1
        assert "".join(lines) == text
        assert all(line.endswith(" ") for line in lines)


class TestFiles:
    def test_folder_is_read_recursively_in_order(self, tmp_path):
        for name in ("b.txt", "a/z.txt.gz", "a/notes.pdf", ".hidden/x.txt", "news.en-00001-of-00002"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(b"")
        names = [path.relative_to(tmp_path).as_posix() for path in find_files(str(tmp_path))]
        assert names == ["a/z.txt.gz", "b.txt", "news.en-00001-of-00002"]
        assert len(find_files(str(tmp_path / "*.txt"))) == 1

    def test_nothing_there(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="no such file"):
            find_files(str(tmp_path / "absent*"))
        (tmp_path / "x.pdf").write_bytes(b"")
        with pytest.raises(ValueError, match=r"x\.pdf.*expected \.txt"):
            find_files(str(tmp_path))

    def test_document_names_do_not_depend_on_the_place(self, tmp_path):
        names = []
        for place in ("here", "there"):
            (tmp_path / place / "sub").mkdir(parents=True)
            (tmp_path / place / "sub" / "a.txt").write_text("A.")
            names += [document.name for document in read_documents(Source("s", str(tmp_path / place)))]
        assert names == ["s/sub/a.txt"] * 2


class TestRows:
    def test_parquet_rows_are_documents(self, tmp_path):
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        path = tmp_path / "t.parquet"
        parquet.write_table(arrow.table({"text": ["One.\nTwo.", None, "Three."]}), path)
        assert paragraphs_of(Source("s", str(path))) == [["One.", "Two."], [], ["Three."]]
        with pytest.raises(ValueError, match=r"columns \['text'\], expected 'body'"):
            paragraphs_of(Source("s", str(path)), column="body")

    def test_dataset_rows_are_documents(self, tmp_path):
        pytest.importorskip("datasets")
        (tmp_path / "t.jsonl").write_text('{"body": "One."}\n{"body": "Two."}\n')
        source = Source.parse(f"d=hf://json?data_files={tmp_path / 't.jsonl'}&split=train&column=body")
        assert paragraphs_of(source) == [["One."], ["Two."]]
        assert [document.name for document in read_documents(source)] == ["d/json#0", "d/json#1"]


class TestTokens:
    def test_given_tokens_stay(self):
        assert list(tokenise_given(["do n't  @-@ ", "", "U.S. ."])) == [["do", "n't", "@-@"], ["U.S.", "."]]

    def test_spacy_tokens_and_sentences(self):
        assert list(SpacySentences()(["I don't. You\u00a0 do!"])) == [
            ["I", "do", "n't", "."],
            ["You", "do", "!"],
        ]

    def test_no_token_has_white_space(self):
        words = [word for sentence in SpacySentences()(["a \t b\n\n c .  \u2003 d"]) for word in sentence]
        assert words == ["a", "b", "c", ".", "d"]
