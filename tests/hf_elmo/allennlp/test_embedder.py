import inspect
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from hf_elmo.allennlp import ElmoEmbedder
from tests.hf_elmo.allennlp.original import Original, assert_close, write_original
from tests.hf_elmo.models import WORDS
from tests.oracles import random_weights

SENTENCES = [WORDS[:7], [], WORDS[7:8], WORDS[8:], WORDS]


@pytest.fixture(scope="module")
def embedder(original: Original) -> ElmoEmbedder:
    return ElmoEmbedder(*original.files)


def test_the_arguments_are_the_references_in_its_order() -> None:
    names = list(inspect.signature(ElmoEmbedder.__init__).parameters)
    assert names == ["self", "options_file", "weight_file", "cuda_device", "stateful"]
    assert list(inspect.signature(ElmoEmbedder.embed_sentences).parameters)[1:] == ["sentences", "batch_size"]


def test_all_layers_of_one_sentence(embedder: ElmoEmbedder, original: Original) -> None:
    vectors = embedder.embed_sentence(WORDS)
    assert vectors.dtype == np.float32
    assert_close(vectors, original.layers([WORDS])[0][0])


@pytest.mark.parametrize("name", random_weights.ODD)
def test_models_of_every_kind(name: str, tmp_path: Path) -> None:
    odd = write_original(tmp_path, name=name)
    embedder = ElmoEmbedder(*odd.files)
    for got, layers in zip(embedder.embed_batch(SENTENCES[:3]), odd.layers(SENTENCES[:3])[0], strict=True):
        assert_close(got, layers)
    width = odd.options["lstm"]["projection_dim"] * 2
    assert embedder.embed_sentence([]).shape == (odd.options["lstm"]["n_layers"] + 1, 0, width)


def test_a_batch_with_an_empty_sentence(embedder: ElmoEmbedder, original: Original) -> None:
    expected, _ = original.layers(SENTENCES)
    for got, layers in zip(embedder.embed_batch(SENTENCES), expected, strict=True):
        assert_close(got, layers)


@pytest.mark.parametrize("batch", [[[]], [[], []], []])
def test_batches_without_a_word(embedder: ElmoEmbedder, batch: list[list[str]]) -> None:
    assert [vectors.shape for vectors in embedder.embed_batch(batch)] == [(3, 0, 32)] * len(batch)


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_sentences_come_one_by_one_in_order(embedder: ElmoEmbedder, original: Original, batch_size: int) -> None:
    expected, _ = original.layers(SENTENCES)
    for got, layers in zip(embedder.embed_sentences(iter(SENTENCES), batch_size), expected, strict=True):
        assert_close(got, layers)


def test_sentences_are_read_as_they_are_asked_for(embedder: ElmoEmbedder) -> None:
    endless = (["word", str(number)] for number in iter(int, 1))
    assert len(list(islice(embedder.embed_sentences(endless, 2), 3))) == 3


def test_tensors_of_a_batch(embedder: ElmoEmbedder, original: Original) -> None:
    layers, mask = embedder.batch_to_embeddings(SENTENCES)
    assert layers.shape == (5, 3, 14, 32)
    assert mask.sum(1).tolist() == list(map(len, SENTENCES))
    assert not layers.requires_grad
    assert_close(layers[0, :, :7], original.layers(SENTENCES[:1])[0][0])


def test_without_arguments_it_is_the_shipped_model() -> None:
    assert ElmoEmbedder().embed_sentence(["a", "word"]).shape == (3, 2, 256)


def test_wrong_inputs_are_refused(embedder: ElmoEmbedder, original: Original) -> None:
    with pytest.raises(TypeError, match="sentence 0: expected a sequence of words, got the single string"):
        embedder.embed_sentence("a sentence")
    with pytest.raises(ValueError, match=r"sentence 1: word 0 .* lone surrogate"):
        embedder.embed_batch([["a"], ["\ud800"]])
    with pytest.raises(ValueError, match="batch_size: got 0"):
        embedder.embed_sentences(SENTENCES, 0)
    with pytest.raises(ValueError, match="cuda_device: got 99"):
        ElmoEmbedder(*original.files, 99)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu(original: Original) -> None:
    got = ElmoEmbedder(*original.files, 0).embed_sentence(WORDS)
    assert_close(got, original.layers([WORDS])[0][0], 1e-4)
