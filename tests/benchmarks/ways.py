"""The ways of embedding a text that are compared with each other on one model."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import spacy
import torch

from hf_elmo import ElmoModel, fused_cell
from hf_elmo.embedder import ElmoEmbedder
from hf_elmo.packed_character_cnn import PackedCharacterCNN
from hf_elmo.prepacked_linear import Precision
from hf_elmo.word_vectors import WordVectors
from tests.benchmarks import models
from tests.benchmarks.limits import Clock
from tests.benchmarks.sentences import Text
from tests.oracles.plain_torch import PlainTorchElmo

PLAIN, ALONE, STREAM, SECOND_PASS, PIPE = "plain", "batch-1", "stream", "second-pass", "nlp.pipe"
UNFUSED = "gpu-fp32-unfused"
IN_BATCHES = {ALONE: 1, "batch-32": 32, "batch-128": 128}
ROUNDED: dict[str, Precision] = {"bf16": "bf16", "int8": "int8"}
# Precision, and what float32 products are allowed to be rounded to.
ON_GPU: dict[str, tuple[Precision, str]] = {
    "gpu-fp32": ("fp32", "highest"),
    UNFUSED: ("fp32", "highest"),
    "gpu-tf32": ("fp32", "high"),
    "gpu-bf16": ("bf16", "highest"),
}
NAMES = (PLAIN, *IN_BATCHES, STREAM, SECOND_PASS, *ROUNDED, PIPE, *ON_GPU)
# Those that compute what the plain loop computes, to the rounding of float32.
EXACT = (PLAIN, *IN_BATCHES, STREAM)
# The slow ways, whose speed does not depend on how much of a text they read, read a part of it.
_ONE_IN = 4


class Way(NamedTuple):
    """From a text to its vectors.

    Attributes:
        embed: what is timed.
        prepare: what is done before, untimed.
        part: what is read of a text.
    """

    embed: Callable[[Text], list[np.ndarray]]
    prepare: Callable[[Text], Any] = lambda text: None
    part: Callable[[Text], Text] = lambda text: text


class NotHereError(Exception):
    """This machine cannot do it; the message says why."""


def way(name: str, model: ElmoModel, folder: Path) -> Way:
    """One of `NAMES`.

    Args:
        name: of the way.
        model: on the CPU.
        folder: where a pipeline finds it saved.

    Raises:
        NotHereError: no such precision or device here.
    """
    if name == PLAIN:
        plain = PlainTorchElmo(*models.original_format(model))
        return Way(lambda text: plain.embed(text.sentences, batch_size=32), part=every_fourth)
    if name == PIPE:
        return _pipe(folder)
    if name in ON_GPU:
        return _on_gpu(name, model)
    embedder = _embedder(model, ROUNDED.get(name, "fp32"))
    if name in IN_BATCHES:
        part = every_fourth if name == ALONE else lambda text: text
        return Way(_in_batches(embedder, IN_BATCHES[name]), lambda text: embedder.forget_words(), part)
    if name == SECOND_PASS:
        return Way(_streamed(embedder), lambda text: embedder.embed(text.sentences, layers="token"))
    return Way(_streamed(embedder), lambda text: embedder.forget_words())


def every_fourth(text: Text) -> Text:
    """A quarter of the sentences, from all over the text."""
    return Text([], text.sentences[::_ONE_IN])


def _embedder(model: ElmoModel, precision: Precision) -> ElmoEmbedder:
    try:
        return ElmoEmbedder(model, precision=precision)
    except ValueError as refused:
        raise NotHereError(str(refused)) from refused


def _streamed(embedder: ElmoEmbedder) -> Callable[[Text], list[np.ndarray]]:
    return lambda text: list(embedder.embed_stream(text.sentences, layers="all"))


def _in_batches(embedder: ElmoEmbedder, size: int) -> Callable[[Text], list[np.ndarray]]:
    def embed(text: Text) -> list[np.ndarray]:
        batches = (text.sentences[start : start + size] for start in range(0, len(text.sentences), size))
        return [vectors for batch in batches for vectors in embedder.embed(batch, layers="all")]

    return embed


def _pipe(folder: Path) -> Way:
    """Raw text in, docs with ELMo's vectors out, tokenisation and sentence boundaries included."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    elmo = nlp.add_pipe("elmo", config={"model": str(folder)})
    return Way(
        lambda text: [doc._.elmo for doc in nlp.pipe(text.paragraphs)],
        lambda text: elmo.load().forget_words(),  # type: ignore[attr-defined]
    )


def _on_gpu(name: str, model: ElmoModel) -> Way:
    if not torch.cuda.is_available():
        raise NotHereError("no CUDA GPU here")
    precision, rounding = ON_GPU[name]
    tried = (lambda *_: None) if name == UNFUSED else fused_cell._tried
    embedder = _embedder(copy.deepcopy(model).to("cuda"), precision)

    def embed(text: Text) -> list[np.ndarray]:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(rounding)
        try:
            with mock.patch.object(fused_cell, "_tried", tried):  # asked when weights are laid out
                return _streamed(embedder)(text)
        finally:
            torch.set_float32_matmul_precision(before)

    def prepare(text: Text) -> None:
        embed(Text([], text.sentences[:4]))  # the GPU's libraries are loaded with its first products
        embedder.forget_words()

    return Way(embed, prepare)


class TokenLayerTimes(NamedTuple):
    """Seconds spent on the token layer while embedding, and how often the character CNN was called.

    Attributes:
        cnn: in the character CNN.
        all: spelling words, looking them up, and the CNN.
        calls: of the CNN.
    """

    cnn: float
    all: float
    calls: int


@contextmanager
def token_layer_times(clock: Clock) -> Iterator[Callable[[], TokenLayerTimes]]:
    """What embedders spend on the token layer from here on, up to the call of what is yielded."""
    with (
        _timed(PackedCharacterCNN, "__call__", clock) as cnn,
        _timed(WordVectors, "__call__", clock) as found,
        _timed(ElmoEmbedder, "_spell", clock) as spelled,
    ):
        yield lambda: TokenLayerTimes(sum(cnn), sum(found) + sum(spelled), len(cnn))


@contextmanager
def _timed(owner: type, method: str, clock: Clock) -> Iterator[list[float]]:
    """The seconds of each call of a method."""
    original, seconds = getattr(owner, method), []

    def timed(*arguments: Any, **options: Any) -> Any:
        begin = clock()
        try:
            return original(*arguments, **options)
        finally:
            seconds.append(clock() - begin)

    setattr(owner, method, timed)
    try:
        yield seconds
    finally:
        setattr(owner, method, original)
