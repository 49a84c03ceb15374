"""`datasets.map` with the tokenizer: what was computed once is found again, in this process and the next."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hf_elmo import ElmoTokenizer

datasets = pytest.importorskip("datasets", reason="needs the extra: pip install 'spacy-elmo[train]'")

WORDS = ["<S>", "</S>", "<UNK>", "the", "dog"]
TEXTS = ["the dog let New-York out", "", "a"]
PROGRAM = """
import sys
from datasets.fingerprint import Hasher
from hf_elmo import ElmoTokenizer
print("RESULT", Hasher.hash(ElmoTokenizer(["<S>", "</S>", "<UNK>", "the", "dog"])))
"""


def tokenized(tokenizer: ElmoTokenizer) -> Any:
    return lambda rows: tokenizer(rows["text"])


def test_a_fingerprint_is_that_of_the_content() -> None:
    """Not of the object, nor of what it was used for before."""
    hasher = datasets.fingerprint.Hasher
    tokenizer = ElmoTokenizer(WORDS)
    before = hasher.hash(tokenizer)
    tokenizer(TEXTS)
    tokenizer([["the", "dog"], ["a"]], is_split_into_words=True, padding=True, return_tensors="pt")
    assert hasher.hash(tokenizer) == before == hasher.hash(ElmoTokenizer(WORDS))
    assert hasher.hash(ElmoTokenizer([*WORDS, "out"])) != before
    assert hasher.hash(ElmoTokenizer(WORDS, max_characters_per_word=20)) != before
    assert hasher.hash(tokenized(tokenizer)) == hasher.hash(tokenized(ElmoTokenizer(WORDS)))


@pytest.mark.slow
def test_a_fingerprint_is_the_same_in_every_process() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split("RESULT ")[1].strip() == datasets.fingerprint.Hasher.hash(ElmoTokenizer(WORDS))


def test_a_map_is_computed_once(tmp_path: Path) -> None:
    data = datasets.Dataset.from_dict({"text": TEXTS})
    data.save_to_disk(tmp_path / "data")
    results = []
    for _ in range(2):
        loaded = datasets.load_from_disk(tmp_path / "data")
        results.append(loaded.map(tokenized(ElmoTokenizer(WORDS)), batched=True))
    first, second = ([file["filename"] for file in result.cache_files] for result in results)
    assert first == second
    assert results[0]._fingerprint == results[1]._fingerprint
    assert results[0]["character_ids"][0] == ElmoTokenizer(WORDS)(TEXTS[0])["character_ids"]


def test_several_processes_give_the_same() -> None:
    data = datasets.Dataset.from_dict({"text": TEXTS * 4})
    alone = data.map(tokenized(ElmoTokenizer(WORDS)), batched=True)
    several = data.map(tokenized(ElmoTokenizer(WORDS)), batched=True, num_proc=2)
    assert several["character_ids"][:] == alone["character_ids"][:]
    assert several["input_ids"][:] == alone["input_ids"][:]


def test_as_tensors() -> None:
    data = datasets.Dataset.from_dict({"text": ["the dog", "a dog"]})
    data = data.map(tokenized(ElmoTokenizer(WORDS)), batched=True, remove_columns=["text"]).with_format("torch")
    assert data[:]["character_ids"].shape == (2, 4, 50)
    assert data[0]["input_ids"].tolist() == [1, 4, 5, 2]
