import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.lm_head import LMHead
from hf_elmo.pretraining.vocabulary_transfer import transfer_head
from tests.hf_elmo.models import randomise, tiny_config

SPECIAL = ["<S>", "</S>", "<UNK>"]
WORDS = [f"w{number}" for number in range(8)]


def head_of(vocabulary: list[str]) -> LMHead:
    return LMHead(tiny_config(vocab_size=len(vocabulary) + 1))


def transferred(old_vocabulary, new_vocabulary, counts) -> tuple[LMHead, LMHead, int]:
    old, new = head_of(old_vocabulary), head_of(new_vocabulary)
    randomise(old)
    with torch.no_grad():
        for parameter in new.parameters():
            parameter.fill_(np.nan)  # every value has to be set
    shared = transfer_head(old, old_vocabulary, new, new_vocabulary, np.array(counts))
    return old, new, shared


def probabilities(head: LMHead, x: torch.Tensor) -> np.ndarray:
    return head.logits(x).double().softmax(dim=-1).detach().numpy()


@given(
    old_words=st.lists(st.sampled_from(WORDS), unique=True, min_size=1),
    more_words=st.lists(st.sampled_from(["n0", "n1", "n2"]), unique=True),
    rest=st.lists(st.integers(0, 50), max_size=3),
    data=st.data(),
)
def test_what_was_unknown_is_shared_out_by_frequency(old_words, more_words, rest, data):
    """Where no word is left out, all probabilities are those of before, and `<UNK>`'s is divided."""
    new_words = data.draw(st.permutations([*old_words, *more_words]))
    counts = [0, 0, 0, *data.draw(st.lists(st.integers(1, 100), min_size=len(new_words), max_size=len(new_words)))]
    old_vocabulary, new_vocabulary = [*SPECIAL, *old_words], [*SPECIAL, *new_words]
    old, new, shared = transferred(old_vocabulary, new_vocabulary, [*counts, *rest])
    assert shared == len(SPECIAL) + len(old_words)
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(1))
    before, after = probabilities(old, x), probabilities(new, x)
    for row, word in enumerate(old_vocabulary):
        if word != "<UNK>":
            np.testing.assert_allclose(after[:, new_vocabulary.index(word)], before[:, row], rtol=1e-4)
    outside = {"<UNK>": max(1, sum(rest)), **{word: counts[new_vocabulary.index(word)] for word in more_words}}
    for word, count in outside.items():
        share = count / sum(outside.values())
        np.testing.assert_allclose(after[:, new_vocabulary.index(word)], before[:, 2] * share, rtol=1e-4)


def test_words_that_are_left_out_leave_the_ratios_of_the_others():
    old, new, shared = transferred([*SPECIAL, "a", "b", "c"], [*SPECIAL, "c", "a"], [0, 0, 0, 5, 4])
    assert shared == 5
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
    before, after = probabilities(old, x), probabilities(new, x)
    kept = before[:, [0, 1, 2, 5, 3]]
    np.testing.assert_allclose(after, kept / kept.sum(axis=1, keepdims=True), rtol=1e-5)


def test_rows_of_both_are_copied_bit_by_bit():
    old, new, _ = transferred([*SPECIAL, "a", "b"], [*SPECIAL, "b", "new"], [0, 0, 0, 9, 3, 1])
    assert torch.equal(new.weight[[0, 1, 3]], old.weight[[0, 1, 4]])
    assert torch.equal(new.bias[[0, 1, 3]], old.bias[[0, 1, 4]])


def test_a_vocabulary_of_another_softmax_is_refused():
    head = head_of([*SPECIAL, "a"])
    with pytest.raises(ValueError, match="got 3 words for a softmax of 4 rows"):
        transfer_head(head, SPECIAL, head, [*SPECIAL, "a"], np.ones(4))
