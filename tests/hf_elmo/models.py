"""Small models and batches that the tests of hf_elmo share."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from hf_elmo import ElmoConfig, ElmoForPreTraining, ElmoModel
from hf_elmo.convert.conversion import load_original
from hf_elmo.task_model import ElmoTaskModel
from tests.oracles import numpy_elmo, random_weights

HeadT = TypeVar("HeadT", bound=ElmoTaskModel)

WORDS = [
    "The",
    "dog",
    "let",
    "out",
    "a",
    "sharp",
    "bark",
    ".",
    "naïve",
    "東京",
    "x" * 60,
    "<UNK>",
    "</S>",
    "\u200b",
]


def tiny_config(**changes: Any) -> ElmoConfig:
    sizes: dict[str, Any] = {
        "vocab_size": 30,
        "character_embedding_size": 4,
        "character_filters": [[1, 4], [2, 8], [3, 8]],
        "projection_size": 6,
        "lstm_size": 10,
        "num_negative_samples": 8,
    }
    return ElmoConfig(**{**sizes, **changes})


def randomise(model: torch.nn.Module, seed: int = 0, std: float = 0.3) -> None:
    """Weights so large that in a small model every input tells, and clips act."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=std, generator=generator)


def random_model(**changes: Any) -> ElmoModel:
    model = ElmoModel(tiny_config(**changes)).eval()
    randomise(model)
    return model


def random_lm(**changes: Any) -> ElmoForPreTraining:
    model = ElmoForPreTraining(tiny_config(**changes)).eval()
    randomise(model)
    return model


def ids(sentences: Sequence[Sequence[str]], *, side: str = "right", extra: int = 0) -> tuple[Tensor, Tensor]:
    """Character ids (B, T, C) and mask (B, T) of sentences with boundaries, padded on a side."""
    rows = [numpy_elmo.sentence_to_ids(sentence) for sentence in sentences]
    width = max(map(len, rows)) + extra
    batch, mask = (
        np.zeros((len(rows), width, rows[0].shape[1]), np.int64),
        np.zeros((len(rows), width), np.int64),
    )
    for number, row in enumerate(rows):
        start = 0 if side == "right" else width - len(row)
        batch[number, start : start + len(row)] = row
        mask[number, start : start + len(row)] = 1
    return torch.from_numpy(batch), torch.from_numpy(mask)


def layers_of(model: ElmoModel, sentences: Sequence[Sequence[str]], **kwargs: Any) -> list[np.ndarray]:
    """Per sentence all layers (L + 1, n, 2P) of one padded batch, boundaries stripped."""
    character_ids, mask = ids(sentences)
    with torch.no_grad():
        output = model(character_ids, mask, output_hidden_states=True, **kwargs)
    stacked = torch.stack(output.hidden_states, dim=1).numpy()
    return [stacked[row, :, 1 : len(words) + 1] for row, words in enumerate(sentences)]


def original_files(folder: Path, options: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> tuple[Path, Path]:
    """options.json and weights.hdf5 in a folder."""
    random_weights.write_options(folder / "options.json", options)
    random_weights.write_hdf5(folder / "weights.hdf5", weights)
    return folder / "options.json", folder / "weights.hdf5"


def converted(folder: Path, options: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> ElmoModel:
    return load_original(*original_files(folder, options, weights))[0]


def random_head(head: type[HeadT], seed: int = 0, **changes: Any) -> HeadT:
    """A small task model with large weights, in evaluation mode."""
    model = head(tiny_config(**{"num_labels": 3, "classifier_lstm_size": 5, **changes})).eval()
    randomise(model, seed)
    return model
