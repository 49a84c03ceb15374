"""Sentiment trees: sentences, phrases, and what is wrong with a line."""

from pathlib import Path

import pytest

from hf_elmo.tasks.sentiment_trees import parse_tree, read_trees

TREE = r"(3 (2 -LRB-It-RRB-) (4 (2 1\/2) (4 good)))"


def test_phrases_of_a_tree() -> None:
    whole = ["-LRB-It-RRB-", "1/2", "good"]
    assert parse_tree(TREE) == [(whole, 3), (whole[:1], 2), (whole[1:], 4), (["1/2"], 2), (["good"], 4)]
    assert parse_tree("(0 -LRB-)") == [(["("], 0)]


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text(f"{TREE}\n(2 (1 Not) (2 bad))\n\n(0 Bad)\n", encoding="utf-8")
    assert [text.label for text in read_trees(path)] == ["3", "2", "0"]
    assert [text.label for text in read_trees(path, num_classes=2)] == ["positive", "negative"]
    assert [text.text for text in read_trees(path, num_classes=2, phrases=True)] == [
        ["-LRB-It-RRB-", "1/2", "good"],
        ["1/2", "good"],
        ["good"],
        ["Not"],
        ["Bad"],
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("(3 (2 It)", "got 1 brackets that are not closed"),
        ("(3 It))", r"got '\)' outside of brackets"),
        ("(3 It) (2 more)", r"got more after the tree's end"),
        ("(5 It)", r"got '5' after '\('; expected a class from 0 to 4"),
        ("(", r"got \"the line's end\" after"),
        ("(2 )", "got a node without words"),
        ("plain text", "got 'plain' outside of brackets"),
    ],
)
def test_malformed_lines(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "t.txt").write_text(f"(2 ok)\n{line}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=rf"t.txt: line 2: {message}"):
        read_trees(tmp_path / "t.txt")


def test_real_files(shared_dir: Path) -> None:
    folder = shared_dir / "data" / "tasks" / "sst5"
    assert [len(read_trees(folder / f"{name}.txt")) for name in ("dev", "test")] == [1095, 2203]
    assert len(read_trees(folder / "dev.txt", num_classes=2)) == 872  # as in the published binary task
