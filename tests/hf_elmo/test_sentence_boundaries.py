import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

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


WORD = st.sampled_from(["a", "b", "<S>", "</S>"])


@given(st.lists(st.tuples(st.lists(WORD, max_size=5), st.lists(WORD, max_size=5)), min_size=1, max_size=4), st.data())
def test_boundaries_in_the_text_move_no_border(pairs: list[tuple[list[str], list[str]]], data: st.DataObject) -> None:
    """But for `</S> <S>`, which cannot be told from a border."""
    pairs = [(first, second) for first, second in pairs if "</S> <S>" not in " ".join(first)] or [([], [])]
    side = data.draw(st.sampled_from(["left", "right"]))
    batch = ElmoTokenizer(padding_side=side)(
        [first for first, _ in pairs],
        [second for _, second in pairs],
        is_split_into_words=True,
        padding=True,
        return_tensors="pt",
    )
    mask = batch["attention_mask"].bool()
    for number, sentences in enumerate(split_pairs(batch["character_ids"], mask)):
        alone = ElmoTokenizer()(
            [pair[number] for pair in pairs], is_split_into_words=True, padding=True, return_tensors="pt"
        )
        assert torch.equal(sentences.character_ids, alone["character_ids"])
        assert torch.equal(sentences.mask, alone["attention_mask"].bool())


def test_padding_between_the_sentences_is_passed_over() -> None:
    batch = ElmoTokenizer()("a <S> b", "c", return_tensors="pt")
    character_ids, mask = batch["character_ids"], batch["attention_mask"].bool()
    before, after = character_ids[:, :5], character_ids[:, 5:]
    character_ids = torch.cat([before, torch.zeros_like(before[:, :2]), after], dim=1)
    mask = torch.cat([mask[:, :5], torch.zeros_like(mask[:, :2]), mask[:, 5:]], dim=1)
    first, second = split_pairs(character_ids, mask)
    assert torch.equal(first.character_ids, before)
    assert torch.equal(second.character_ids, after)


def test_without_ends_a_pair_is_split_at_the_second_begin() -> None:
    batch = ElmoTokenizer(add_eos_token=False)("a b", "c d e", return_tensors="pt")
    first, second = split_pairs(batch["character_ids"], batch["attention_mask"].bool())
    assert (first.mask.sum(), second.mask.sum()) == (3, 4)


def test_a_begin_in_the_text_makes_no_pair() -> None:
    batch = ElmoTokenizer()("a <S> b", return_tensors="pt")
    with pytest.raises(ValueError, match="one sentence in row 0; expected a pair"):
        split_pairs(batch["character_ids"], batch["attention_mask"].bool())
