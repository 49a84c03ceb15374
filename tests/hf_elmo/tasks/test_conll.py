"""Files in columns, as CoNLL-2003, WNUT and Universal Dependencies write them."""

import gzip
from pathlib import Path

import pytest

from hf_elmo.tasks.conll import read_conll

CONLL03 = """-DOCSTART- -X- O O

Mary NNP I-NP I-PER
lives VBZ I-VP O
. . O O

She PRP I-NP O
"""
CONLLU = """# sent_id = 1
# text = Don't go.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No
3.1\tyou\tyou\tPRON\tPRP\t_\t_\t_\t_\t_

"""


def written(folder: Path, text: str, name: str = "train.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_conll_2003(tmp_path: Path) -> None:
    path = written(tmp_path, CONLL03)
    sentences = read_conll(path)
    assert [sentence.words for sentence in sentences] == [["Mary", "lives", "."], ["She"]]
    assert [sentence.tags for sentence in sentences] == [["I-PER", "O", "O"], ["O"]]
    assert read_conll(path, tag_column=1)[0].tags == ["NNP", "VBZ", "."]
    assert read_conll(path, tag_column=-2)[0].tags == ["I-NP", "I-VP", "O"]


def test_tabs_packed_and_windows_lines(tmp_path: Path) -> None:
    """A word may hold a space that does not break, where columns stand between tabs."""
    text = "10\u00a0000\tO\r\nyen\tO\r\n\t\r\nTokyo\tB-LOC\r\n"
    path = tmp_path / "wnut.conll.gz"
    path.write_bytes(gzip.compress(text.encode()))
    assert read_conll(path) == [(["10\u00a0000", "yen"], ["O", "O"]), (["Tokyo"], ["B-LOC"])]


def test_conllu(tmp_path: Path) -> None:
    path = written(tmp_path, CONLLU, "dev.conllu")
    assert read_conll(path) == [(["Do", "n't", "go"], ["AUX", "PART", "VERB"])]
    assert read_conll(path, tag_column=4)[0].tags == ["VB", "RB", "VB"]


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("a O\nb X O\n", {}, r"train.txt: line 2: got 3 columns \('b X O'\); expected 2, as in line 1"),
        ("\na\n", {}, "train.txt: line 2: got 1 column, of which word_column and tag_column are the same"),
        ("a O\n", {"tag_column": 2}, "train.txt: line 1: got 2 columns; expected tag_column = 2 from -2 to 1"),
        ("a\tO\nb\t\n", {}, "train.txt: line 2: got nothing in column -1"),
        ("-DOCSTART- O\n\n", {}, "train.txt: got no sentence"),
    ],
)
def test_malformed_files(tmp_path: Path, text: str, columns: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_conll(written(tmp_path, text), **columns)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes("ok O\ncaf\u00e9 O\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin\.txt: line 2: got bytes e9 20 4f 0a at byte 3"):
        read_conll(tmp_path / "latin.txt")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"a O\n" * 99)[:-9])
    with pytest.raises(ValueError, match=r"cut\.gz: cannot be unpacked"):
        read_conll(tmp_path / "cut.gz")
    with pytest.raises(FileNotFoundError, match="no such file; expected a text file"):
        read_conll(tmp_path / "missing")


def test_real_files(shared_dir: Path) -> None:
    """The number of sentences and words that these files are known to have."""
    tasks = shared_dir / "data" / "tasks"
    testa = read_conll(tasks / "conll03" / "eng.testa")
    assert (len(testa), sum(len(sentence.words) for sentence in testa)) == (3250, 51362)
    dev = read_conll(tasks / "ewt" / "dev.conllu")
    assert (len(dev), {tag for sentence in dev for tag in sentence.tags} >= {"NOUN", "VERB"}) == (2001, True)
