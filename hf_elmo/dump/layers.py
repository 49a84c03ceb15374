"""Which of the biLM's layers a dump holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import numpy as np

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.embedder import ElmoEmbedder

NamedLayers = Literal["all", "top", "average", "mix"]
DumpedLayers = NamedLayers | tuple[int, ...]

# Words that are embedded together, so that sentences of like length meet in a batch.
_WORDS_PER_WINDOW = 8192


def parse_layers(text: str) -> DumpedLayers:
    """`all`, `top`, `average`, `mix`, or numbers of layers between commas.

    Raises:
        ValueError: neither.
    """
    for name in get_args(NamedLayers):
        if text == name:
            return name
    numbers = text.split(",")
    if not all(number.strip().isdecimal() for number in numbers):
        raise ValueError(f"layers: got {text!r}; expected {_expected()}, such as 0,2.")
    return tuple(map(int, numbers))


def check_layers(layers: DumpedLayers, config: ElmoConfig) -> None:
    """Refuse layers that the model does not have.

    Raises:
        ValueError: with those it has.
    """
    top = config.num_hidden_layers
    if isinstance(layers, str):
        sound = layers in get_args(NamedLayers)
    else:
        sound = len(layers) > 0 and all(type(layer) is int and 0 <= layer <= top for layer in layers)
    if not sound:
        raise ValueError(f"layers: got {layers!r}; expected {_expected()} from 0 (token layer) to {top} (top).")


def vectors_per_word(layers: DumpedLayers, config: ElmoConfig) -> int:
    """How many vectors of 2P components a word has."""
    if isinstance(layers, str):
        return config.num_hidden_layers + 1 if layers == "all" else 1
    return len(layers)


def embed_windows(
    embedder: ElmoEmbedder, sentences: Sequence[Sequence[str]], layers: DumpedLayers
) -> Iterator[list[np.ndarray]]:
    """Vectors of the sentences in their order, some at a time.

    Shape:
        per sentence of n words (n, 2P), or (k, n, 2P) for `"all"` or a tuple of k layers
    """
    window: list[Sequence[str]] = []
    words = 0
    for sentence in sentences:
        if window and words + len(sentence) > _WORDS_PER_WINDOW:
            yield embedder.embed(window, layers=layers)
            window, words = [], 0
        window.append(sentence)
        words += len(sentence)
    if window:
        yield embedder.embed(window, layers=layers)


def _expected() -> str:
    return f"{', '.join(get_args(NamedLayers))}, or numbers of layers"
