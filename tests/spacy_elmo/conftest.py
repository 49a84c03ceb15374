from collections.abc import Callable
from pathlib import Path

import pytest
import spacy
import torch
from spacy.language import Language

from hf_elmo import ElmoConfig, ElmoModel

WIDTH, LAYERS = 12, 3


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model saved in Hugging Face's format, with a mix that is not the plain average."""
    config = ElmoConfig(
        character_embedding_size=4,
        character_filters=[[1, 4], [2, 8], [3, 8]],
        num_highway_layers=1,
        projection_size=WIDTH // 2,
        lstm_size=10,
        num_hidden_layers=LAYERS - 1,
    )
    torch.manual_seed(0)
    model = ElmoModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)  # large enough for contexts to tell in so small a model
        model.scalar_mix.weights.copy_(torch.tensor([0.3, -0.2, 0.9]))
        model.scalar_mix.gamma.fill_(1.5)
    folder = tmp_path_factory.mktemp("tiny_elmo")
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def make_nlp(tiny_folder: Path) -> Callable[..., Language]:
    """Build a blank English pipeline whose component "elmo" is the tiny model."""

    def build(*before: str, **config: object) -> Language:
        nlp = spacy.blank("en")
        for name in before:
            nlp.add_pipe(name)
        nlp.add_pipe("elmo", config={"model": str(tiny_folder), **config})
        return nlp

    return build


@pytest.fixture
def nlp(make_nlp: Callable[..., Language]) -> Language:
    return make_nlp()
