import pytest
import torch

from hf_elmo import ElmoTokenizer
from hf_elmo.sentence_boundaries import boundaries_of, split_pairs
from tests.hf_elmo.models import ids

PAIRS = [("who is it ?", "me"), ("what", "a thing , I say")]


@pytest.mark.parametrize("side", ["left", "right"])
def test_boundaries_are_where_the_tokenizer_put_them(side: str) -> None:
    tokenizer = ElmoTokenizer(padding_side=side)
    batch = tokenizer(["one two", "Ā ā"], padding="max_length", max_length=6, return_tensors="pt")
    special = (batch["input_ids"] == 1) | (batch["input_ids"] == 2)
    assert boundaries_of(batch["character_ids"]).tolist() == special.tolist()
    assert special.sum() == 4


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_pair_is_split_as_its_sentences_are_alone(side: str) -> None:
    tokenizer = ElmoTokenizer(padding_side=side)
    batch = tokenizer(*map(list, zip(*PAIRS, strict=True)), padding=True, return_tensors="pt")
    mask = batch["attention_mask"].bool()
    for number, sentences in enumerate(split_pairs(batch["character_ids"], mask)):
        alone = tokenizer([pair[number] for pair in PAIRS], padding=True, padding_side="right", return_tensors="pt")
        assert torch.equal(sentences.character_ids, alone["character_ids"])
        assert torch.equal(sentences.mask, alone["attention_mask"].bool())


def test_put_back_where_the_words_stood() -> None:
    batch = ElmoTokenizer(padding_side="left")(*map(list, zip(*PAIRS, strict=True)), padding=True, return_tensors="pt")
    mask = batch["attention_mask"].bool()
    x = batch["character_ids"].float()
    first, second = split_pairs(batch["character_ids"], mask)
    length = mask.shape[1]
    back = first.put_back(first.character_ids.float(), length) + second.put_back(second.character_ids.float(), length)
    assert torch.equal(back, x)


def test_a_single_sentence_is_no_pair() -> None:
    character_ids, mask = ids([["a"]])
    with pytest.raises(ValueError, match="one sentence in row 0; expected a pair"):
        split_pairs(character_ids, mask.bool())
