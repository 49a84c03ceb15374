"""What AllenNLP itself computed with its own test model, recorded: ten batches of three sentences."""

import json
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from hf_elmo.allennlp import Elmo, ElmoEmbedder, batch_to_ids
from tests.hf_elmo.allennlp.original import TOKEN_LAYER, TOP_LAYER, assert_close
from tests.oracles import numpy_elmo


@pytest.fixture(scope="module")
def fixture(shared_dir: Path) -> Path:
    return shared_dir / "reference" / "allennlp_fixture"


def _batches(fixture: Path) -> Iterator[tuple[list[list[str]], list[np.ndarray]]]:
    """Three sentences and the top layer (n, 2P) of each, in the order in which the state was carried."""
    lists = json.loads((fixture / "sentences.json").read_text())
    files = [h5py.File(fixture / f"lm_embeddings_{k}.hdf5") for k in range(3)]
    for number in range(10):
        batch = [sentences[number].split() for sentences in lists]
        yield batch, [np.concatenate(file[str(number)][()], axis=1) for file in files]


def _files(fixture: Path) -> tuple[Path, Path]:
    return fixture / "options.json", fixture / "lm_weights.hdf5"


def test_stateful_elmo_equals_the_record(fixture: Path) -> None:
    elmo = Elmo(*_files(fixture), 1, dropout=0.0, scalar_mix_parameters=TOP_LAYER, stateful=True)
    words = 0
    for batch, expected in _batches(fixture):
        representation = elmo(batch_to_ids(batch))["elmo_representations"][0]
        for row, vectors in enumerate(expected):
            assert_close(representation[row, : len(vectors)], vectors)
            words += len(vectors)
    assert words > 300


def test_stateful_embedder_equals_the_record(fixture: Path) -> None:
    embedder = ElmoEmbedder(*_files(fixture), stateful=True)
    sentences = [sentence for batch, _ in _batches(fixture) for sentence in batch]
    recorded = [vectors for _, batch in _batches(fixture) for vectors in batch]
    for layers, vectors in zip(embedder.embed_sentences(sentences, batch_size=3), recorded, strict=True):
        assert_close(layers[2], vectors)


def test_stateless_elmo_equals_the_record_where_nothing_was_carried_yet_and_the_oracle_everywhere(
    fixture: Path,
) -> None:
    options = json.loads((fixture / "options.json").read_text())
    with h5py.File(fixture / "lm_weights.hdf5") as file:
        weights = {}
        file.visititems(lambda name, item: weights.update({name: item[()]}) if hasattr(item, "shape") else None)
    elmo = Elmo(*_files(fixture), 1, dropout=0.0, scalar_mix_parameters=TOP_LAYER)
    distances = []
    for batch, recorded in _batches(fixture):
        representation = elmo(batch_to_ids(batch))["elmo_representations"][0].detach().numpy()
        for row, sentence in enumerate(batch):
            layers, _ = numpy_elmo.embed_sentence(sentence, options, weights)
            assert_close(representation[row, : len(sentence)], layers[2])
        distances.append(max(np.abs(representation[r, : len(v)] - v).max() for r, v in enumerate(recorded)))
    assert distances[0] < 1e-5
    assert min(distances[1:]) > 0.1  # the record carried its state


def test_the_token_layer_equals_the_record(fixture: Path) -> None:
    words = (fixture / "vocab_test.txt").read_text(encoding="utf-8").splitlines()
    with h5py.File(fixture / "elmo_token_embeddings.hdf5") as file:
        recorded = file["embedding"][()]  # (words, P)
    elmo = Elmo(*_files(fixture), 1, dropout=0.0, scalar_mix_parameters=TOKEN_LAYER, keep_sentence_boundaries=True)
    representation = elmo(batch_to_ids([words]))["elmo_representations"][0][0, 1:-1]
    assert_close(representation, np.concatenate([recorded, recorded], axis=1))


def test_cached_words_equal_the_record(fixture: Path) -> None:
    words = (fixture / "vocab_test.txt").read_text(encoding="utf-8").splitlines()
    with h5py.File(fixture / "elmo_token_embeddings.hdf5") as file:
        recorded = file["embedding"][()]
    elmo = Elmo(*_files(fixture), 1, vocab_to_cache=["", *words])
    table = elmo._elmo_lstm._elmo_lstm.model.character_cnn.word_embedding.weight
    assert_close(table[1:], recorded)
    assert not table[0].any()
