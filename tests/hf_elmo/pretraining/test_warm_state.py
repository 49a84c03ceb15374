import copy

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from hf_elmo import ElmoForPreTraining, ElmoModel
from hf_elmo.pretraining.streams import HeldoutStreams
from hf_elmo.pretraining.warm_state import mean_state_at_sentence_beginnings, store_warm_state
from tests.hf_elmo.models import ids, random_lm
from tests.hf_elmo.pretraining.numpy_streams import OPTIONS, WEIGHTS, numpy_lm, read, sentence_as_read, state_of
from tests.hf_elmo.pretraining.prepared_corpora import prepare_sentences
from tests.oracles import numpy_elmo

TEXT = [
    ["The", "dog", "let", "out", "a", "bark", "."],
    ["東京", "."],
    ["a"],
    ["a", "zebra", "a"],
    ["naïve", "</S", "x"],
]
MARKS = (257, 258)  # the bytes' ids end at 256


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return prepare_sentences(tmp_path_factory.mktemp("corpus"), TEXT, {"h": [["a"]]})


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> ElmoForPreTraining:
    return numpy_lm(tmp_path_factory.mktemp("weights"), 7)


def streams(prepared, *, batch_size=1, unroll_steps=4, split="train"):
    return HeldoutStreams(prepared, split, batch_size=batch_size, unroll_steps=unroll_steps)


def mean_by_hand(direction: int, rows) -> numpy_elmo.State:
    """Sentence by sentence in NumPy: the state that each leaves, but for the last of a row."""
    left = []
    for sentences in rows:
        state = numpy_elmo.zero_state(OPTIONS)
        for sentence in sentences[:-1]:
            _, state = read(sentence_as_read(sentence, direction)[:-1], direction, state)
            left.append(state)
    return numpy_elmo.State(*(np.mean([getattr(s, part) for s in left], axis=0) for part in ("cell", "hidden")))


def rows_of(batches, direction: int) -> list[list[list[bytes]]]:
    """The sentences of each row of some batches as a direction reads them, words by their character ids."""
    prefix = ("", "backward_")[direction]
    rows = None
    for batch in batches:
        words = batch["distinct_character_ids"][batch[f"{prefix}distinct_index"]]
        rows = rows or [[] for _ in words]
        for row, read_now, labels in zip(rows, words, batch[f"{prefix}labels"], strict=True):
            for word, label in zip(read_now, labels, strict=True):
                if label == -100:
                    continue
                if word[1] == MARKS[direction]:
                    row.append([])
                else:
                    row[-1].append(bytes(int(c) - 1 for c in word[1:] if 0 < c <= 256).decode())
    return rows


@pytest.mark.parametrize("unroll_steps", [1, 3, 100])
def test_one_stream_is_the_mean_over_what_each_sentence_leaves(model, prepared, unroll_steps):
    mean = mean_state_at_sentence_beginnings(model, streams(prepared, unroll_steps=unroll_steps))
    for direction in (0, 1):
        expected = mean_by_hand(direction, [TEXT])
        np.testing.assert_allclose(mean.cell[:, direction, 0], expected.cell[:, direction], atol=1e-6)
        np.testing.assert_allclose(mean.hidden[:, direction, 0], expected.hidden[:, direction], atol=1e-6)
    assert mean.cell.dtype == mean.hidden.dtype == torch.float64


def test_parallel_streams_count_every_sentence_but_the_first_of_each(model, prepared):
    batches = list(streams(prepared, batch_size=2))
    mean = mean_state_at_sentence_beginnings(model, batches)
    for direction in (0, 1):
        rows = rows_of(batches, direction)
        assert sorted(map(len, rows)) == [2, 3]
        if direction == 1:
            rows = [[sentence[::-1] for sentence in row] for row in rows]
        expected = mean_by_hand(direction, rows)
        np.testing.assert_allclose(mean.cell[:, direction, 0], expected.cell[:, direction], atol=1e-6)


def test_is_deterministic_and_leaves_the_model_as_it_was(prepared):
    model = random_lm(dropout=0.5).train()
    parameters = copy.deepcopy(model.state_dict())
    one, other = (mean_state_at_sentence_beginnings(model, streams(prepared, batch_size=2)) for _ in range(2))
    assert torch.equal(one.cell, other.cell)
    assert torch.equal(one.hidden, other.hidden)
    assert model.training
    assert all(torch.equal(values, parameters[name]) for name, values in model.state_dict().items())


@pytest.mark.parametrize("kind", [ElmoForPreTraining, ElmoModel])
def test_is_kept_through_saving_and_begins_every_sentence(model, prepared, tmp_path, kind):
    model.save_pretrained(tmp_path / "lm")
    cold = kind.from_pretrained(tmp_path / "lm")
    cold.save_pretrained(tmp_path / "cold")
    warm = copy.deepcopy(cold)
    store_warm_state(warm, streams(prepared))
    warm.save_pretrained(tmp_path / "warm")
    loaded = kind.from_pretrained(tmp_path / "warm")
    assert loaded.config.initial_state == "warm"
    mean = mean_state_at_sentence_beginnings(cold, streams(prepared))
    stored = loaded.base_model.initial_state
    torch.testing.assert_close(stored.cell, mean.cell[:, :, 0].float(), rtol=0, atol=0)
    torch.testing.assert_close(stored.hidden, mean.hidden[:, :, 0].float(), rtol=0, atol=0)

    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("cold", "warm"))
    assert {name.split("initial_state.")[-1] for name in after.keys() - before.keys()} == {"cell", "hidden"}
    assert all(torch.equal(values, after[name]) for name, values in before.items())

    character_ids, mask = ids([["a", "zebra"]])
    with torch.no_grad():
        layers = ElmoModel.from_pretrained(tmp_path / "warm")(character_ids, mask, output_hidden_states=True)
    expected, _ = numpy_elmo.embed_sentence(["a", "zebra"], OPTIONS, WEIGHTS, state_of(loaded), keep_boundaries=True)
    np.testing.assert_allclose(torch.stack(layers.hidden_states)[:, 0], expected, atol=1e-5)
    from_zero, _ = numpy_elmo.embed_sentence(["a", "zebra"], OPTIONS, WEIGHTS, keep_boundaries=True)
    assert np.abs(expected - from_zero).max() > 1e-2


def test_a_sentence_begins_in_it_whatever_stands_beside(prepared):
    model = random_lm()
    store_warm_state(model, streams(prepared))
    sentences = [["a", "dog"], ["The", "zebra", "let", "out"], ["x"]]
    with torch.no_grad():
        together = model(*ids(sentences)).forward_hidden_state
        for row, words in enumerate(sentences):
            alone = model(*ids([words])).forward_hidden_state
            torch.testing.assert_close(together[row, : len(words) + 2], alone[0])


def test_storing_again_replaces_it(prepared):
    model = random_lm()
    store_warm_state(model, streams(prepared))
    first = model.elmo.initial_state.cell.clone()
    store_warm_state(model, streams(prepared))
    assert torch.equal(model.elmo.initial_state.cell, first)  # the text is read from zero, not from the old state
    store_warm_state(model, streams(prepared, batch_size=2))
    assert not torch.equal(model.elmo.initial_state.cell, first)


def test_text_without_a_second_sentence_is_refused(prepared):
    model = random_lm()
    for batch_size, split in ((1, "heldout-h"), (5, "train")):
        with pytest.raises(ValueError, match="no sentence that follows another"):
            store_warm_state(model, streams(prepared, batch_size=batch_size, unroll_steps=1, split=split))
    assert model.config.initial_state == "zero"
    with pytest.raises(ValueError, match="no sentence that follows another"):
        store_warm_state(model, [])
