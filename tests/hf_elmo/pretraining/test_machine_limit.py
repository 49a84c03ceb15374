import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from hf_elmo import ElmoConfig, ElmoForPreTraining
from hf_elmo.character_cnn import CharacterCNN
from hf_elmo.pretraining.machine_limit import (
    MachineLimit,
    lstm_flops,
    machine_limit,
    measure_limit,
    softmax_flops,
    token_layer_flops,
    token_layer_per_word,
    training_flops_per_word,
)
from hf_elmo.pretraining.streams import StreamBatches
from hf_elmo.pretraining.trainer import model_inputs
from tests.hf_elmo.models import ids, tiny_config
from tests.hf_elmo.pretraining.prepared_corpora import prepare_sentences

ODD = [
    {},
    {"lm_softmax": "full"},
    {"lstm_size": 6, "num_hidden_layers": 3},  # no projection of the LSTM
    {"character_filters": [[1, 2], [3, 4]], "num_highway_layers": 0},  # none of the token layer
    {"max_characters_per_word": 50, "character_filters": [[5, 40]], "num_highway_layers": 1},
]


@pytest.mark.parametrize("changes", ODD, ids=str)
def test_a_training_step_has_the_operations_that_torch_counts(changes):
    config = tiny_config(vocab_size=40, dropout=0.1, **changes)
    model = ElmoForPreTraining(config).train()
    words = [["ab", "abcdef", "x"], ["dog", "ab", "y"]]
    character_ids, _ = ids(words)
    labels = torch.randint(1, 40, character_ids.shape[:2])
    state = model.elmo.initial_state(2, like=model.lm_head.weight)
    with FlopCounterMode(display=False) as counter:
        backward = {"backward_character_ids": character_ids.flip(1), "backward_labels": labels}
        model(character_ids, labels=labels, **backward, state=state).loss.backward()
    distinct = 5 + 2  # with the boundaries; the model computes so few in one group, as long as the longest
    token_layer = distinct * token_layer_flops(config, len("abcdef") + 2) / labels.numel()
    assert (
        counter.get_total_flops() == training_flops_per_word(config, token_layer_per_word=token_layer) * labels.numel()
    )


def test_a_word_as_long_as_it_may_be():
    config = tiny_config(max_characters_per_word=12)
    rows = torch.randint(1, 262, (3, 12))
    with FlopCounterMode(display=False) as counter:
        CharacterCNN(config).word_vectors(rows)
    assert counter.get_total_flops() == 3 * token_layer_flops(config, 12) == 3 * token_layer_flops(config, 10)


def test_the_original_model():
    """Worked out by hand: 2 x 2 LSTMs of 1024 x 16384 + 4096 x 512, 8,192 negatives, 2 highways of 2 x 2048²."""
    config = ElmoConfig(vocab_size=793_472)
    assert lstm_flops(config) == 2 * 2 * 2 * (1024 * 16384 + 4096 * 512) == 150_994_944
    assert softmax_flops(config) == 2 * 2 * 512 * 8192
    without_convolutions = token_layer_flops(config, 50) - 2 * 2 * 2 * 2048 * 2048 - 2 * 2048 * 512
    windows = [(50, 1, 32), (49, 2, 32), (48, 3, 64), (47, 4, 128), (46, 5, 256), (45, 6, 512), (44, 7, 1024)]
    assert without_convolutions == sum(2 * windows * width * 16 * count for windows, width, count in windows)


def test_the_token_layer_is_counted_as_often_as_batches_have_distinct_words(tmp_path):
    """The expectation from the words' frequencies, against the batches themselves."""
    rng = np.random.default_rng(0)
    spelled = [f"{'x' * int(rng.integers(0, 12))}{number}" for number in range(400)]
    draws = [rng.zipf(1.3, rng.integers(3, 12)) % 400 for _ in range(3000)]
    prepared = prepare_sentences(tmp_path, [[spelled[draw] for draw in words] for words in draws])
    config = tiny_config(vocab_size=prepared.vocab_size + 1)
    streams = StreamBatches(prepared, batch_size=16, unroll_steps=10)
    expected = token_layer_per_word(config, prepared, words_per_batch=160)
    counted = []
    for _ in range(40):
        rows = next(streams)["distinct_character_ids"]
        lengths = (rows != rows[:, -1:]).sum(axis=1)  # all before the padding
        counted.append(sum(token_layer_flops(config, int(length)) for length in lengths) / 160)
    assert expected == pytest.approx(np.mean(counted), rel=0.03)


def test_measuring_counts_what_was_done_in_the_time_that_it_took():
    ticks = iter(range(100))
    # The clock goes on by one with every look: each product takes 1, three fit before 5.
    assert measure_limit("cpu", seconds=5, size=8, clock=lambda: float(next(ticks))) == 2 * 8**3
    assert next(ticks) == 7


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_measuring_leaves_the_random_numbers_alone(dtype):
    before = torch.random.get_rng_state()
    assert measure_limit("cpu", dtype, seconds=0.0, size=64) > 0
    assert torch.equal(before, torch.random.get_rng_state())


def test_shares_and_speeds(prepared):
    limit = MachineLimit(flops_per_second=2e9, flops_per_word=4e6)
    assert limit.words_per_second == 500
    assert limit.share(100) == 0.2
    assert "2 GFLOP/s in matrix products, 4.0 MFLOP a word in training, so 500 words/s" in str(limit)
    config = tiny_config(vocab_size=prepared.vocab_size + 1)
    of_two = machine_limit(config, prepared, words_per_batch=15, device="cpu", processes=2)
    assert of_two.flops_per_word == training_flops_per_word(
        config, token_layer_per_word=token_layer_per_word(config, prepared, words_per_batch=15)
    )
    assert of_two.flops_per_second > 0


def test_the_inputs_of_the_count_are_those_of_training(prepared):
    """Words in each direction are what a batch's labels count."""
    batch = model_inputs(next(StreamBatches(prepared, batch_size=3, unroll_steps=5)))
    assert batch["labels"].numel() == batch["backward_labels"].numel() == 15
