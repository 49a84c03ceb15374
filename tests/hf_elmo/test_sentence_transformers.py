"""Sentence vectors by sentence-transformers: pooling by the mask, encoding, saving and loading again."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hf_elmo import ElmoModel, ElmoTokenizer
from hf_elmo.auto_map import SHIM
from tests.hf_elmo.models import random_model

sentence_transformers: Any = pytest.importorskip(
    "sentence_transformers", reason="needs the extra: pip install 'spacy-elmo[sentence]'"
)

TEXTS = ["The dog let it out .", "Yes", "It was a sunny day in the park and nobody came ."]


@pytest.fixture(scope="module")
def model() -> ElmoModel:
    return random_model()


@pytest.fixture(scope="module")
def folder(model: ElmoModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    model.save_pretrained(path)
    ElmoTokenizer().save_pretrained(path)
    return path


def pooled(model: ElmoModel, text: str, mode: str) -> np.ndarray:
    """Of one sentence, which needs no padding; both boundaries count."""
    with torch.no_grad():
        vectors = model(**ElmoTokenizer()(text, return_tensors="pt")).last_hidden_state[0].numpy()  # (T, 2P)
    return vectors.mean(axis=0) if mode == "mean" else vectors.max(axis=0)


def encoder(folder: Path, mode: str) -> Any:
    modules = sentence_transformers.sentence_transformer.modules
    words = modules.Transformer(str(folder))
    return sentence_transformers.SentenceTransformer(modules=[words, modules.Pooling(12, pooling_mode=mode)])


@pytest.mark.parametrize("mode", ["mean", "max"])
def test_padding_takes_no_part(mode: str, folder: Path, model: ElmoModel) -> None:
    encoded = encoder(folder, mode).encode(TEXTS, batch_size=3)
    assert encoded.shape == (3, 12)
    for text, vector in zip(TEXTS, encoded, strict=True):
        np.testing.assert_allclose(vector, pooled(model, text, mode), atol=1e-6)


def test_the_folder_alone_is_pooled_by_the_mean(folder: Path, model: ElmoModel) -> None:
    encoded = sentence_transformers.SentenceTransformer(str(folder)).encode(TEXTS)
    np.testing.assert_allclose(encoded, [pooled(model, text, "mean") for text in TEXTS], atol=1e-6)


@pytest.mark.parametrize("mode", ["mean", "max"])
def test_saved_and_loaded_again(mode: str, folder: Path, tmp_path: Path) -> None:
    first = encoder(folder, mode)
    first.save_pretrained(str(tmp_path))
    assert (tmp_path / SHIM).is_file()
    again = sentence_transformers.SentenceTransformer(str(tmp_path))
    np.testing.assert_array_equal(again.encode(TEXTS), first.encode(TEXTS))


def test_gradients_reach_the_mix(folder: Path) -> None:
    """Fine-tuning by sentence-transformers' own losses goes through the model."""
    first = encoder(folder, "mean").train()
    output = first(first.preprocess(TEXTS))["sentence_embedding"]
    output.square().sum().backward()
    mix = first[0].auto_model.scalar_mix if hasattr(first[0], "auto_model") else first[0].model.scalar_mix
    assert mix.weights.grad.abs().sum() > 0
