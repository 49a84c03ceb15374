from pathlib import Path

import numpy as np
import pytest
from experiments.readers.columns import Tagged, entities, read_columns, to_iob2
from experiments.readers.conllu import read_conllu
from experiments.readers.pairs import RELATIONS, Pair, read_pairs, split_by_premise
from experiments.readers.semcor import Use, lemma_of, read_first_senses, read_raganato, read_semcor, sense_keys
from experiments.readers.squad import read_squad
from experiments.readers.static_vectors import StaticVectors
from experiments.readers.trees import read_trees
from experiments.readers.wic import read_wic


def test_conll03_begins_every_entity_with_b(data_dir: Path) -> None:
    sentences = read_columns(data_dir / "tasks" / "conll03" / "eng.train")
    assert len(sentences) == 12
    assert sentences[0] == Tagged(
        ["Peter", "Blackburn", "visited", "Rome", "Paris", "."], ["B-PER", "I-PER", "O", "B-LOC", "B-LOC", "O"]
    )
    assert entities(sentences[0].labels) == {(0, 2, "PER"), (3, 4, "LOC"), (4, 5, "LOC")}


def test_document_starts_are_no_words(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\n")
    assert read_columns(path) == [Tagged(["EU"], ["B-ORG"])]


def test_a_word_without_label_is_named(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("EU I-ORG\nrejects\n")
    with pytest.raises(ValueError, match="line 2: got 'rejects'"):
        read_columns(path)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["I-A", "I-A", "I-B", "B-B", "O", "I-A"], ["B-A", "I-A", "B-B", "B-B", "O", "B-A"]),
        (["B-A", "I-B", "I-B"], ["B-A", "B-B", "I-B"]),
        ([], []),
    ],
)
def test_iob2(labels: list[str], expected: list[str]) -> None:
    assert to_iob2(labels) == expected
    assert to_iob2(expected) == expected


def test_universal_words_without_ranges_and_empty_nodes(data_dir: Path) -> None:
    for name in ("ewt/train.conllu", "gum/train.conllu.gz"):
        sentences = read_conllu(data_dir / "tasks" / name)
        assert len(sentences) == 12
        assert sentences[0] == Tagged(["He", "does", "n't", "sing", "."], ["PRON", "AUX", "PART", "VERB", "PUNCT"])


def test_trees(data_dir: Path, tmp_path: Path) -> None:
    trees = read_trees(data_dir / "tasks" / "sst5" / "train.txt")
    assert trees[0].words == ["It", "is", "good", "."]
    assert [tree.label for tree in trees[:3]] == [3, 0, 2]
    assert trees[2].words == ["(", "so", "so/so"]
    (tmp_path / "no").write_text("a sentence\n")
    with pytest.raises(ValueError, match="line 1: got 'a sentence'; expected a tree"):
        read_trees(tmp_path / "no")


def test_no_premise_is_on_both_sides(data_dir: Path) -> None:
    pairs = read_pairs(data_dir / "tasks" / "nli" / "snli_dev.jsonl")
    assert pairs[1] == Pair("A dog runs.", "Somebody moves.", RELATIONS.index("entailment"))
    many = [pair._replace(premise=f"{pair.premise} {number}") for pair in pairs for number in range(50)]
    train, test = split_by_premise(many)
    assert sorted(train + test) == sorted(many)
    assert not {pair.premise for pair in train} & {pair.premise for pair in test}
    assert 0.1 < len(test) / len(many) < 0.3


def test_squad(data_dir: Path, tmp_path: Path) -> None:
    questions = read_squad(data_dir / "tasks" / "squad_devsplit" / "train.json")
    assert [question.answers for question in questions] == [["the capital"], ["the Tiber", "Tiber"]]
    text = (data_dir / "tasks" / "squad_devsplit" / "train.json").read_text()
    (tmp_path / "moved").write_text(text.replace('"answer_start": 41', '"answer_start": 40'))
    with pytest.raises(ValueError, match="question 2: the answer is not at 40"):
        read_squad(tmp_path / "moved")


def test_semcor_takes_joined_words_apart(data_dir: Path) -> None:
    sentences = read_semcor(data_dir / "tasks" / "semcor" / "semcor.jsonl.gz")
    assert sentences[0].words == ["A", "fine", "play", "by", "New", "York", "."]
    assert sentences[0].uses == [
        Use(2, 3, "play%1", frozenset(["play%1:10:00::"])),
        Use(4, 6, "new_york%1", frozenset(["new_york%1:15:00::"])),
    ]
    assert sentences[2].uses[1].lemma == "dry%3", "satellites are adjectives"


def test_joined_senses_are_taken_apart() -> None:
    assert sense_keys("year%1:28:02::;1:28:01::") == ["year%1:28:02::", "year%1:28:01::"]
    assert sense_keys("dry%5:00:00:humorous:00") == ["dry%5:00:00:humorous:00"]


def test_raganato(data_dir: Path, tmp_path: Path) -> None:
    (sentence,) = read_raganato(data_dir / "tasks" / "wsd_eval" / "senseval2")
    assert sentence.words == ["The", "play", "belongs", "to", "dry", "dry", "."]
    assert [(use.start, use.end, use.lemma) for use in sentence.uses] == [
        (1, 2, "play%1"),
        (2, 4, "belong_to%2"),
        (5, 6, "dry%3"),
    ]
    assert sentence.uses[0].senses == {"play%1:10:00::", "play%1:99:00::"}


def test_first_senses(data_dir: Path) -> None:
    assert read_first_senses(data_dir / "index.sense") == {
        "belong_to%2": "belong_to%2:42:00::",
        "dry%3": "dry%3:00:01::",
        "play%1": "play%1:10:00::",
    }
    assert lemma_of("dry%5:00:00:dull:00") == "dry%3"


def test_wic(data_dir: Path, tmp_path: Path) -> None:
    first, second = read_wic(data_dir / "tasks" / "wic", "dev")
    assert (first.sentences[0][first.places[0]], first.sentences[1][first.places[1]]) == ("play", "play")
    assert [first.same, second.same] == [True, False]
    folder = tmp_path / "dev"
    folder.mkdir()
    (folder / "dev.data.txt").write_text("play\tN\t0-2\tPlay .\tA play\n")
    (folder / "dev.gold.txt").write_text("T\n")
    with pytest.raises(ValueError, match="expected places inside the sentences"):
        read_wic(tmp_path, "dev")


def test_static_vectors(data_dir: Path, tmp_path: Path) -> None:
    vectors = StaticVectors(data_dir / "vectors" / "glove.6B.50d.top100k.txt.gz")
    rows = vectors.rows(["play", "Rome", "unheard-of"])
    np.testing.assert_array_equal(vectors.vectors[rows], [[1.5, -1.25, 1], [2.5, -2.25, 2], [0, 0, 0]])
    (tmp_path / "short.txt").write_text("1 3\nthe 1 2\n")
    with pytest.raises(ValueError, match="line 2: got 2 numbers; expected 3"):
        StaticVectors(tmp_path / "short.txt")
