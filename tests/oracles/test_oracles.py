"""The oracles against arithmetic by hand, against each other, and against the references as recorded."""

import json
import math

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from . import numpy_elmo, random_weights
from .plain_torch import PlainTorchElmo
from .random_weights import ODD, options
from .random_weights import random_weights as weights_of

SENTENCES = [
    ["The", "cat", "sat", "on", "the", "mat", "."],
    ["Naïve", "café", "日本語", "🙂"],
    [],
    ["one"],
    ["<S>", "x" * 60, "", "</S>"],
    ["a", "rather", "longer", "sentence", ",", "so", "that", "the", "others", "end", "before", "it", "does"],
    ["ab", "ab"],
]


def numpy_embed(sentences, options, weights, *, batch_size, stateful):
    """`PlainTorchElmo.embed` by the other oracle."""
    embedded, states = [], []
    for start in range(0, len(sentences), batch_size):
        batch = sentences[start : start + batch_size]
        layers, states = numpy_elmo.embed_batch(batch, options, weights, states if stateful else [])
        embedded += layers
    return embedded


def largest_difference(ours, theirs):
    assert [a.shape for a in ours] == [b.shape for b in theirs]
    return max(np.abs(a - b).max(initial=0) for a, b in zip(ours, theirs, strict=True))


# By hand


@pytest.mark.parametrize(
    ("word", "inside"),
    [
        ("a", [98]),
        ("", []),
        ("é", [0xC3 + 1, 0xA9 + 1]),
        ("<S>", [257]),
        ("</S>", [258]),
        ("<UNK>", [61, 86, 79, 76, 63]),
        ("a\ud800b", [98, 99]),
        ("x" * 60, [121] * 48),
        ("x" * 47 + "é", [121] * 47 + [0xC3 + 1]),
    ],
)
def test_word_is_begin_bytes_end_pads(word, inside):
    assert numpy_elmo.word_to_ids(word) == [259, *inside, 260] + [261] * (48 - len(inside))


@given(word=st.text(max_size=30), max_characters=st.integers(4, 60))
def test_row_spells_the_word_up_to_the_cut(word, max_characters):
    row = numpy_elmo.word_to_ids(word, max_characters)
    end = row.index(260)
    assert bytes(character - 1 for character in row[1:end]) == word.encode()[: max_characters - 2]
    assert row[0] == 259
    assert row[end + 1 :] == [261] * (max_characters - end - 1)


def test_sentence_gets_both_boundaries():
    rows = numpy_elmo.sentence_to_ids(["a"], max_characters=4)
    assert rows.tolist() == [[259, 257, 260, 261], [259, 98, 260, 261], [259, 258, 260, 261]]


@pytest.mark.parametrize(("activation", "expected"), [("relu", [6543, 0]), ("tanh", [1, math.tanh(-0.5)])])
def test_convolution_by_hand(activation, expected):
    x = np.array([[[1, 2], [3, 4], [5, 6]]])  # windows: 1+20+300+4000 and 3+40+500+6000
    weights = {
        "CNN/W_cnn_0": np.reshape([1, 10, 100, 1000], (1, 2, 2, 1)),
        "CNN/b_cnn_0": np.zeros(1),
        "CNN/W_cnn_1": np.reshape([-1, 0], (1, 1, 2, 1)),  # its maximum is at the first position: -1
        "CNN/b_cnn_1": np.array([0.5]),
    }
    options = {"char_cnn": {"activation": activation, "filters": [[2, 1], [1, 1]]}}
    assert numpy_elmo.char_cnn(x, options, weights)[0] == pytest.approx(expected)


def test_windows_of_pad_characters_take_part_in_the_maximum():
    weights = {
        "char_embed": np.eye(261)[:, 260:],  # d = 1: the pad character is 1, all others 0
        "CNN/W_cnn_0": np.ones((1, 1, 1, 1)),
        "CNN/b_cnn_0": np.zeros(1),
    }
    options = {"char_cnn": {"activation": "relu", "filters": [[1, 1]]}}
    ids = np.array([numpy_elmo.word_to_ids("x" * 47), numpy_elmo.word_to_ids("x" * 48)])
    assert numpy_elmo.token_vectors(ids, options, weights).tolist() == [[1], [0]]


def test_highway_by_hand():
    """A gate of 1/2 between relu(2 * -3 + 7) = 1 and the input 2."""
    x, W_carry, W_transform = np.reshape([2.0, 0.5, -3.0], (3, 1, 1))
    output = numpy_elmo.highway(x, W_carry, np.array([-1]), W_transform, np.array([7]))
    assert output.item() == pytest.approx(0.5 * 1 + 0.5 * 2)


@pytest.mark.parametrize(
    ("cell_clip", "proj_clip", "c", "h"),
    [
        (None, None, 2.25, 5 * math.tanh(2.25)),
        (0, 0, 2.25, 5 * math.tanh(2.25)),
        (2, None, 2, 5 * math.tanh(2)),
        (None, 3, 2.25, 3),
    ],
)
def test_lstm_step_by_hand(cell_clip, proj_clip, c, h):
    """i = 1*2 - 2*1 = 0, tanh(j) = 1/2, f = -2/2 = -1, o = 0: every gate is open by half."""
    W = np.array([[2, math.atanh(0.5), 0, 0], [-1, 0, -0.5, 0]])
    arrays = {"W": W, "B": np.zeros(4), "W_P": np.array([[10.0]])}
    x, c_before, h_before = np.array([[1.0], [4.0], [2.0]])
    result = numpy_elmo.lstm_step(x, c_before, h_before, **arrays, cell_clip=cell_clip, proj_clip=proj_clip)
    assert [part.item() for part in result] == pytest.approx([c, h])


def test_lstm_without_projection_is_not_clipped():
    W, B = np.zeros((2, 4)), np.array([9, 9, 9, 9])
    c, h = numpy_elmo.lstm_step(*np.zeros((3, 1)), W=W, B=B, proj_clip=0.1)
    assert [c.item(), h.item()] == pytest.approx([1, math.tanh(1)], abs=1e-3)


def test_upper_layers_add_their_input_to_the_output_but_not_to_the_state():
    config = options("three_layers")
    weights = weights_of(config, 0)
    plain = options("three_layers", use_skip_connections=False)
    x = np.random.default_rng(0).standard_normal((1, 16))
    with_skip, state = numpy_elmo.bilm(x, config, weights)
    without_skip, plain_state = numpy_elmo.bilm(x, plain, weights)
    assert np.array_equal(with_skip[:2], without_skip[:2])
    assert np.array_equal(with_skip[2], without_skip[2] + with_skip[1])
    assert np.array_equal(with_skip[3], np.hstack([*state.hidden[2]])[None] + with_skip[2])
    assert np.array_equal(without_skip[3], np.hstack([*plain_state.hidden[2]])[None])


def test_backward_is_forward_on_the_reversed_sentence():
    config = options()
    weights = weights_of(config, 0)
    other = {"RNN_0": "RNN_1", "RNN_1": "RNN_0"}
    swapped = {other.get(name[:5], name[:5]) + name[5:]: array for name, array in weights.items()}
    x = np.random.default_rng(0).standard_normal((5, 16))
    layers, state = numpy_elmo.bilm(x, config, weights)
    mirrored, mirrored_state = numpy_elmo.bilm(x[::-1], config, swapped)
    assert np.array_equal(mirrored[:, ::-1], np.roll(layers, 16, axis=2))
    assert np.array_equal(mirrored_state.cell, state.cell[:, ::-1])


def test_state_continues_a_sequence():
    config = options()
    weights = weights_of(config, 0)
    x = np.random.default_rng(0).standard_normal((5, 16))
    whole, final = numpy_elmo.bilm(x, config, weights)
    _, between = numpy_elmo.bilm(x[:3], config, weights)
    rest, continued = numpy_elmo.bilm(x[3:], config, weights, between)
    assert np.array_equal(rest[:, :, :16], whole[:, 3:, :16])  # the forward half
    assert np.array_equal(continued.cell[:, 0], final.cell[:, 0])
    assert np.array_equal(continued.hidden[:, 0], final.hidden[:, 0])


def test_states_are_matched_by_position():
    """Batches of 2, 1 and 3 rows: the second row skips a batch, the third starts at zero."""
    config = options()
    weights = weights_of(config, 0)
    a, b, c = (list(words) for words in ("ab", "cde", "f"))
    _, states = numpy_elmo.embed_batch([a, b], config, weights)
    _, states = numpy_elmo.embed_batch([c], config, weights, states)
    batch, _ = numpy_elmo.embed_batch([a, a, a], config, weights, states)
    one_row, _ = numpy_elmo.embed_batch([a], config, weights, [numpy_elmo.embed_sentence(b, config, weights)[1]])
    assert np.array_equal(batch[1], one_row[0])
    assert np.array_equal(batch[2], numpy_elmo.embed_sentence(a, config, weights)[0])
    assert not np.allclose(batch[0], batch[2], atol=1e-3)


def test_scalar_mix_by_hand():
    layers = np.array([[[4.0, 8.0]], [[0.0, 4.0]]])
    assert numpy_elmo.scalar_mix(layers, [0, math.log(3)], gamma=2).tolist() == [[2, pytest.approx(10)]]


def test_layer_norms_by_hand():
    """Two sentences of one and two tokens, one layer, two features."""
    batch = [np.array([[[1.0, 3.0]]]), np.array([[[1.0, 3.0], [5.0, 5.0]]])]
    per_token = [numpy_elmo.normalise_tokens(layers, eps=0.5) for layers in batch]
    assert per_token[0][0, 0] == pytest.approx([-1 / 1.5**0.5, 1 / 1.5**0.5])
    assert per_token[1][0, 1].tolist() == [0, 0]
    together = numpy_elmo.normalise_batch(batch, eps=1.0)  # mean 3, variance 8/3
    assert together[0][0, 0] == pytest.approx([-2 / (8 / 3 + 1) ** 0.5, 0])
    assert together[1][0, 1] == pytest.approx([2 / (8 / 3 + 1) ** 0.5] * 2)


# Random weights


@pytest.mark.parametrize(
    ("size", "floats"),
    [
        ("small", 13_593_296),
        ("medium", 28_027_728),
        pytest.param("original", 93_600_848, marks=pytest.mark.slow),
    ],
)
def test_sizes_have_as_many_weights_as_the_published_files(size, floats):
    assert sum(array.size for array in weights_of(options(size), 0).values()) == floats


@pytest.mark.parametrize("name", ["tiny", "small"])
def test_tame_weights_bound_the_recurrent_rows_and_keep_the_signal(name):
    config = options(name)
    weights, P = weights_of(config, 0), config["lstm"]["projection_dim"]
    for array_name in (array_name for array_name in weights if array_name.endswith("W_0")):
        assert np.abs(weights[array_name][P:]).max() <= np.float32(0.3 / (2 * P) ** 0.5)
    layers, _ = numpy_elmo.embed_sentence(SENTENCES[0], config, weights)
    assert (layers.std(axis=(1, 2)) > 0.3).all()


def test_random_weights_depend_on_the_seed_only():
    first, again, other = (weights_of(options(), seed) for seed in (0, 0, 1))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not any(np.array_equal(first[name], other[name]) for name in first)


def test_files_round_trip(tmp_path):
    config = options("tight_clip")
    weights = weights_of(config, 0)
    random_weights.write_hdf5(tmp_path / "weights.hdf5", weights)
    random_weights.write_options(tmp_path / "options.json", config)
    config_read = json.loads((tmp_path / "options.json").read_text())
    assert config_read == config
    with h5py.File(tmp_path / "weights.hdf5") as file:
        assert all(np.array_equal(file[name], weights[name]) and file[name].dtype == "f4" for name in weights)
        from_file, _ = numpy_elmo.embed_sentence(["a", "word"], config_read, file)
    assert np.array_equal(from_file, numpy_elmo.embed_sentence(["a", "word"], config, weights)[0])


# Against each other


@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("name", ["tiny", *ODD])
def test_oracles_agree(name, stateful):
    config = options(name)
    weights = weights_of(config, 0)
    theirs = numpy_embed(SENTENCES, config, weights, batch_size=3, stateful=stateful)
    for dtype, tolerance in [(torch.float64, 1e-13), (torch.float32, 3e-6)]:
        ours = PlainTorchElmo(config, weights, dtype=dtype).embed(SENTENCES, batch_size=3, stateful=stateful)
        assert largest_difference(ours, theirs) <= tolerance


@pytest.mark.parametrize("name", ["small", pytest.param("original", marks=pytest.mark.slow)])
def test_oracles_agree_at_published_sizes(name):
    config = options(name)
    weights = weights_of(config, 0)
    sentences = [words[:5] for words in SENTENCES[:2]]
    theirs = numpy_embed(sentences, config, weights, batch_size=2, stateful=False)
    assert largest_difference(PlainTorchElmo(config, weights).embed(sentences), theirs) <= 1e-5


def test_wild_weights_amplify_rounding_only():
    config = options()
    weights = weights_of(config, 2, tame=False)
    sentences = [2 * [word for words in SENTENCES for word in words]]  # one sentence of 62 words
    theirs, _ = numpy_elmo.embed_batch(sentences, config, weights)
    single, double = (
        largest_difference(PlainTorchElmo(config, weights, dtype=dtype).embed(sentences), theirs)
        for dtype in (torch.float32, torch.float64)
    )
    assert double <= 1e-10
    assert single > 3e-5


def test_state_rows_of_a_larger_batch_start_at_zero():
    """Batches of 1, 3 and 2 rows through the explicit state of either oracle."""
    config = options()
    weights = weights_of(config, 0)
    model, state, states = PlainTorchElmo(config, weights, dtype=torch.float64), None, []
    for batch in (SENTENCES[:1], SENTENCES[1:4], SENTENCES[4:6]):
        ours, state = model.embed_batch(batch, state)
        theirs, states = numpy_elmo.embed_batch(batch, config, weights, states)
        assert largest_difference(ours, theirs) <= 1e-13
    for part, rows in zip(state, zip(*states, strict=True), strict=True):
        assert np.allclose(part, np.stack(rows, axis=2), rtol=0, atol=1e-13)


# Against recorded outputs of the references


@pytest.fixture(scope="module")
def allennlp_fixture(shared_dir):
    return shared_dir / "reference" / "allennlp_fixture"


@pytest.fixture(scope="module")
def allennlp_model(allennlp_fixture):
    config = json.loads((allennlp_fixture / "options.json").read_text())
    with h5py.File(allennlp_fixture / "lm_weights.hdf5") as file:
        return config, {name: file[name][()] for name in weights_of(config, 0)}


@pytest.mark.parametrize("oracle", ["numpy", "torch"])
def test_recorded_top_layer(oracle, allennlp_fixture, allennlp_model):
    """Batch i is sentence i of each of three lists, the state is carried over ten batches."""
    lists = json.loads((allennlp_fixture / "sentences.json").read_text())
    sentences = [text.split() for batch in zip(*lists, strict=True) for text in batch]
    recorded = []
    for i in range(len(lists[0])):
        for k in range(len(lists)):
            with h5py.File(allennlp_fixture / f"lm_embeddings_{k}.hdf5") as file:
                recorded.append(np.concatenate(file[str(i)][()], axis=-1))  # (n, 2P), stored as (2, n, P)
    if oracle == "numpy":
        embedded = numpy_embed(sentences, *allennlp_model, batch_size=3, stateful=True)
    else:
        embedded = PlainTorchElmo(*allennlp_model).embed(sentences, batch_size=3, stateful=True)
    assert largest_difference([layers[-1] for layers in embedded], recorded) <= 3e-6


def test_recorded_token_vectors(allennlp_fixture, allennlp_model):
    """Row i is the context-free vector of line i of the vocabulary, which has no boundaries."""
    words = (allennlp_fixture / "vocab_test.txt").read_text().split("\n")
    ids = np.array([numpy_elmo.word_to_ids(word) for word in words])
    with h5py.File(allennlp_fixture / "elmo_token_embeddings.hdf5") as file:
        recorded = file["embedding"][()]
    assert largest_difference([numpy_elmo.token_vectors(ids, *allennlp_model)], [recorded]) <= 3e-6


TENSORFLOW_NAMES = {
    "RNN/MultiRNNCell/Cell": "rnn/multi_rnn_cell/cell_",
    "LSTMCell/W_P_0": "lstm_cell/projection/kernel",
    "LSTMCell/W_0": "lstm_cell/kernel",
    "LSTMCell/B": "lstm_cell/bias",
}


def tensorflow_name(name):
    for ours, theirs in TENSORFLOW_NAMES.items():
        name = name.replace(ours, theirs)
    return f"lm/{name}"


@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize(("direction", "stream"), [(0, "tokens_characters"), (1, "tokens_characters_reverse")])
def test_recorded_training_states(direction, stream, row, shared_dir):
    """What the LSTMs of bilm-tf hold after its first training batch, each direction on its own stream."""
    golden = shared_dir / "reference" / "bilm_training_golden"
    config = json.loads((golden / "train_options.json").read_text())
    with h5py.File(golden / "train_before.hdf5") as file:
        weights = {name: file[tensorflow_name(name)][()] for name in weights_of(config, 0)}
    with np.load(golden / "train_steps.npz") as steps:
        ids = steps[f"0/{stream}"][row] + 1
        recorded = np.array([steps[f"0/final_state_{4 * direction + k}"][row] for k in (0, 2)])
        recorded_hidden = np.array([steps[f"0/final_state_{4 * direction + k}"][row] for k in (1, 3)])
    x = numpy_elmo.token_vectors(ids, config, weights)
    in_text_order = x[::-1] if direction else x  # the backward stream comes in reading order
    _, state = numpy_elmo.bilm(in_text_order, config, weights)
    assert np.abs(state.cell[:, direction] - recorded).max() <= 3e-6
    assert np.abs(state.hidden[:, direction] - recorded_hidden).max() <= 3e-6
