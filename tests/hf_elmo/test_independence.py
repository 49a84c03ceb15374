"""A vector depends on its sentence, and on nothing else that is in the batch or was before it."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_elmo import ElmoModel
from hf_elmo.embedder import ElmoEmbedder
from tests.hf_elmo.models import WORDS, ids, random_model

MODELS = {dtype: random_model().to(dtype) for dtype in (torch.float64, torch.float32)}
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5}

# Long and odd words from a list: drawn letter by letter they would be most of the test's time.
words = st.sampled_from([*WORDS, "", "é" * 40, "a\u0301", "𝒳" * 12, "\x00"]) | st.text(max_size=5).filter(
    str.isprintable
)
sentences = st.lists(words, max_size=7)
batches = st.lists(sentences, min_size=1, max_size=4)
precisions = pytest.mark.parametrize("dtype", MODELS, ids=str)


def _run(model: ElmoModel, batch: Sequence[Sequence[str]], side: str = "right", extra: int = 0) -> list[np.ndarray]:
    """Per sentence the mix and all layers (L + 2, n + 2, 2P)."""
    character_ids, mask = ids(batch, side=side, extra=extra)
    with torch.no_grad():
        output = model(character_ids, mask, output_hidden_states=True)
    stacked = torch.stack([output.last_hidden_state, *output.hidden_states], dim=1).numpy()
    return [stacked[row][:, mask[row].bool().numpy()] for row in range(len(batch))]


def _same(got: Sequence[np.ndarray], expected: Sequence[np.ndarray], dtype: torch.dtype) -> None:
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCES[dtype])


@precisions
@given(batch=batches)
def test_batch_mates_do_not_matter(dtype: torch.dtype, batch: list[list[str]]) -> None:
    model = MODELS[dtype]
    alone = [_run(model, [sentence])[0] for sentence in batch]
    _same(_run(model, batch), alone, dtype)


@precisions
@given(batch=batches, data=st.data())
def test_order_does_not_matter(dtype: torch.dtype, batch: list[list[str]], data: st.DataObject) -> None:
    model = MODELS[dtype]
    order = data.draw(st.permutations(range(len(batch))))
    shuffled = _run(model, [batch[index] for index in order])
    in_order = _run(model, batch)
    _same(shuffled, [in_order[index] for index in order], dtype)


@precisions
@given(batch=batches, extra=st.integers(0, 5))
def test_padding_does_not_matter(dtype: torch.dtype, batch: list[list[str]], extra: int) -> None:
    model = MODELS[dtype]
    right = _run(model, batch)
    _same(_run(model, batch, side="left"), right, dtype)
    _same(_run(model, batch, side="left", extra=extra), right, dtype)
    _same(_run(model, batch, side="right", extra=extra), right, dtype)


@given(sentence=sentences, holes=st.lists(st.integers(0, 12), max_size=4))
def test_padding_within_a_sentence_does_not_matter(sentence: list[str], holes: list[int]) -> None:
    model = MODELS[torch.float64]
    character_ids, mask = ids([sentence])
    gapped, gapped_mask = character_ids, mask
    for hole in holes:
        place = min(hole, gapped.shape[1])
        nothing = torch.zeros(1, 1, gapped.shape[2], dtype=torch.long)
        gapped = torch.cat([gapped[:, :place], nothing, gapped[:, place:]], dim=1)
        gapped_mask = torch.cat([gapped_mask[:, :place], nothing[..., 0], gapped_mask[:, place:]], dim=1)
    with torch.no_grad():
        plain = model(character_ids, mask).last_hidden_state[0]
        output = model(gapped, gapped_mask).last_hidden_state[0]
    np.testing.assert_allclose(output[gapped_mask[0].bool()], plain, rtol=0, atol=1e-12)
    assert not output[~gapped_mask[0].bool()].any()


@given(batch=batches, more=batches)
def test_earlier_calls_do_not_matter(batch: list[list[str]], more: list[list[str]]) -> None:
    model = MODELS[torch.float64]
    before = _run(model, batch)
    _run(model, more)
    for one, other in zip(_run(model, batch), before, strict=True):
        np.testing.assert_array_equal(one, other)


@precisions
@settings(max_examples=20)
@given(batch=batches, budget=st.integers(1, 60))
def test_the_embedder_equals_the_model_at_any_batch_size(
    dtype: torch.dtype, batch: list[list[str]], budget: int
) -> None:
    model = MODELS[dtype]
    expected = [vectors[:, 1:-1] for vectors in _run(model, batch)]
    embedder = ElmoEmbedder(model, max_words_per_batch=budget)
    mixes, layers = embedder.embed(batch), embedder.embed(batch, layers="all")
    for mix, all_layers, wanted in zip(mixes, layers, expected, strict=True):
        np.testing.assert_allclose(mix, wanted[0], rtol=0, atol=1e-5)  # float32 whatever the model's precision
        np.testing.assert_allclose(all_layers, wanted[1:], rtol=0, atol=1e-5)


def test_a_full_mask_of_its_own_wins_over_rows_of_zeros() -> None:
    model = MODELS[torch.float64]
    character_ids, mask = ids([["a", "b"]], extra=1)
    masked = model(character_ids).last_hidden_state
    counted = model(character_ids, torch.ones_like(mask)).last_hidden_state
    assert not masked[0, -1].any()
    assert counted[0, -1].any()
    assert not torch.equal(masked[0, 0], counted[0, 0])
