"""The converted model computes what the original computes."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from hf_elmo.convert.conversion import load_original
from hf_elmo.initial_state import CarriedState
from tests.hf_elmo.models import WORDS, converted, ids, layers_of
from tests.oracles import numpy_elmo, random_weights

SENTENCES = [WORDS, WORDS[:1], WORDS[3:8], []]
TOLERANCE = 1e-5


@pytest.mark.parametrize("name", ["tiny", "small", *random_weights.ODD])
def test_all_layers_equal_the_oracle(name: str, tmp_path: Path) -> None:
    options = random_weights.options(name)
    weights = random_weights.random_weights(options, seed=1)
    model = converted(tmp_path, options, weights)
    length = options["char_cnn"]["max_characters_per_token"]
    for words in SENTENCES:
        expected, _ = numpy_elmo.embed_sentence(words, options, weights, keep_boundaries=True)
        character_ids = torch.from_numpy(numpy_elmo.sentence_to_ids(words, length)).unsqueeze(0)
        with torch.no_grad():
            layers = model(character_ids, output_hidden_states=True).hidden_states
        np.testing.assert_allclose(torch.cat(layers).numpy(), expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", ["medium", "original"])
def test_the_large_sizes_equal_the_oracle(name: str, tmp_path: Path) -> None:
    options = random_weights.options(name)
    weights = random_weights.random_weights(options, seed=2)
    model = converted(tmp_path, options, weights)
    sentences = [WORDS[:5], WORDS[5:8]]
    expected, _ = numpy_elmo.embed_batch(sentences, options, weights)
    for got, wanted in zip(layers_of(model, sentences), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=TOLERANCE)


def test_double_precision_equals_the_oracle_to_its_rounding(tmp_path: Path) -> None:
    options = random_weights.options("tiny")
    weights = random_weights.random_weights(options, seed=3, tame=False)
    model = converted(tmp_path, options, weights).double()
    expected, _ = numpy_elmo.embed_batch(SENTENCES, options, weights)
    for got, wanted in zip(layers_of(model, SENTENCES), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-11)


def test_carried_state_equals_the_oracle_for_batches_of_changing_size(tmp_path: Path) -> None:
    options = random_weights.options("tiny")
    weights = random_weights.random_weights(options, seed=4)
    model = converted(tmp_path, options, weights)
    carried, states = CarriedState(), []
    for batch in (SENTENCES[:2], SENTENCES[1:2], SENTENCES[:3], SENTENCES[2:4]):
        expected, states = numpy_elmo.embed_batch(batch, options, weights, states)
        character_ids, mask = ids(batch)
        with torch.no_grad():
            output = model(character_ids, mask, state=carried.take(model, len(batch)), output_hidden_states=True)
        carried.put(output.state)
        layers = torch.stack(output.hidden_states, dim=1).numpy()
        for row, wanted in enumerate(expected):
            np.testing.assert_allclose(layers[row, :, 1 : wanted.shape[1] + 1], wanted, rtol=0, atol=TOLERANCE)


def test_recorded_vectors_of_the_reference(shared_dir: Path) -> None:
    """AllenNLP's own fixture: the top layer of ten batches of three sentences, state carried."""
    fixture = shared_dir / "reference" / "allennlp_fixture"
    model, _ = load_original(fixture / "options.json", fixture / "lm_weights.hdf5")
    lists = json.loads((fixture / "sentences.json").read_text())
    recorded = [h5py.File(fixture / f"lm_embeddings_{k}.hdf5") for k in range(3)]
    carried, compared = CarriedState(), 0
    for number in range(10):
        batch = [sentences[number].split() for sentences in lists]
        character_ids, mask = ids(batch)
        with torch.no_grad():
            output = model(character_ids, mask, state=carried.take(model, 3), output_hidden_states=True)
        carried.put(output.state)
        for row, (file, words) in enumerate(zip(recorded, batch, strict=True)):
            expected = np.concatenate(file[str(number)][()], axis=1)  # (n, 2P)
            got = output.hidden_states[-1][row, 1 : len(words) + 1].numpy()
            np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE)
            compared += len(words)
    assert compared > 300


def test_recorded_token_vectors_of_the_reference(shared_dir: Path) -> None:
    fixture = shared_dir / "reference" / "allennlp_fixture"
    model, _ = load_original(fixture / "options.json", fixture / "lm_weights.hdf5")
    words = (fixture / "vocab_test.txt").read_text(encoding="utf-8").splitlines()
    with h5py.File(fixture / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][()]
    rows = torch.tensor([numpy_elmo.word_to_ids(word) for word in words])
    with torch.no_grad():
        got = model.character_cnn(rows).numpy()
    np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE)
