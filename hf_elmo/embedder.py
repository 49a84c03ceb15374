"""Words in, vectors out: sentences, or a stream of them, through a frozen model."""

import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from hf_elmo.character_ids import BOS_WORD, EOS_WORD, words_to_character_ids
from hf_elmo.layer_choice import Choice, Layers, check_layers, choose
from hf_elmo.model_source import load_model
from hf_elmo.modeling_elmo import ElmoModel
from hf_elmo.packed_bilm import PackedBiLM
from hf_elmo.packed_character_cnn import PackedCharacterCNN
from hf_elmo.prepacked_linear import Precision, check_precision
from hf_elmo.weights_snapshot import WeightsSnapshot
from hf_elmo.word_vectors import WordCacheStatistics, WordVectors

# Batches of a stream's window: sentences of one length meet in them.
_BATCHES_PER_WINDOW = 8


class ElmoEmbedder:
    """Computes the vectors of tokenised sentences with a model that is not being trained.

    A sentence's vectors depend on nothing but the sentence and the model; float32 products of other shapes round
    otherwise, by less than 1e-5.  One embedder may serve several threads.

    The weights are copied into the layout that is fastest to read; where they change, they are copied again (what is
    noticed: [`WeightsSnapshot`][hf_elmo.weights_snapshot.WeightsSnapshot]).

    Args:
        model: put into evaluation mode.
        max_words_per_batch: bound on the positions of a batch, padding included; a longer sentence is a batch alone.
        precision: of the LSTMs' products: `"fp32"`, the weights' own; `"bf16"`, rounded to 8 significant bits;
            `"int8"`, scaled to 8 bits row by row.  The cell is float32, and so is the token layer.
        max_cached_words: how many words' token layer is remembered between calls; 0 for none.

    Raises:
        TypeError: something else in the model's place, such as a head or a path.
        ValueError: an option out of range, or a precision this device cannot compute in.
    """

    def __init__(
        self,
        model: ElmoModel,
        *,
        max_words_per_batch: int = 4096,
        precision: Precision = "fp32",
        max_cached_words: int = 32_768,
    ) -> None:
        model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
        check_is_model(model, load="ElmoEmbedder.from_pretrained(path)")
        if max_words_per_batch < 1:
            raise ValueError(f"max_words_per_batch: got {max_words_per_batch}; expected at least 1.")
        if max_cached_words < 0:
            raise ValueError(f"max_cached_words: got {max_cached_words}; expected 0 (none are remembered) or more.")
        check_precision(precision, model.device)
        self.model = model.eval()
        self.max_words_per_batch = max_words_per_batch
        self.precision: Precision = precision
        self.max_cached_words = max_cached_words
        self._lock = threading.Lock()
        self._weights: _PackedWeights | None = None

    @classmethod
    def from_pretrained(cls, name: str | Path | None = None, *, revision: str | None = None, **options: Any) -> Self:
        """The embedder of a model that is loaded.

        Args:
            name: a folder, an id on the Hugging Face Hub, or None or "default" for the model in the package.
            revision: branch, tag or commit of a model on the Hub.
            options: as of the class.

        Raises:
            OSError: no such folder, and nothing of that name on the Hub or in its local cache.
            ValueError: found, but no ELMo, or a damaged one; an option out of range.
        """
        return cls(load_model(name, revision=revision), **options)

    def embed(self, sentences: Iterable[Sequence[str]], *, layers: Layers = "mix") -> list[np.ndarray]:
        """Vectors of every word of every sentence, in the order given, without boundaries.

        Args:
            sentences: words as they are; the model adds nothing but the sentence boundaries.
            layers: `"mix"` for the scalar mix, `"average"` for the layers' mean, `"top"` or `"token"` for one layer,
                `"all"` for every layer, or a list of layers from 0 (token layer) on.

        Shape:
            per sentence of n words (n, 2P) float32, or (k, n, 2P) for `"all"` or a list of k layers

        Raises:
            ValueError: other `layers`; a word with a lone surrogate, named with its index and sentence.
            TypeError: a word that is no string, or a sentence given as one string.
        """
        check_layers(layers, self.model.config)
        return self._embed(list(sentences), 0, layers)

    def embed_stream(
        self, sentences: Iterable[Sequence[str]], *, layers: Layers = "mix", window: int | None = None
    ) -> Iterator[np.ndarray]:
        """As `embed`, one sentence after the other, from a stream that may have no end.

        Args:
            sentences: read as far ahead as a window reaches.
            layers: as in `embed`.
            window: positions (words and boundaries) that are collected, so that sentences of one length meet in a
                batch; eight batches by default.

        Raises:
            ValueError: a window below 1, and as `embed`, when the stream comes to the sentence.
            TypeError: as `embed`.
        """
        check_layers(layers, self.model.config)
        if window is not None and window < 1:
            raise ValueError(f"window: got {window}; expected at least 1 position, or None.")
        return self._stream(sentences, layers, window or _BATCHES_PER_WINDOW * self.max_words_per_batch)

    @property
    def word_cache_statistics(self) -> WordCacheStatistics:
        """How many words were remembered and how many computed, since the present weights are used."""
        weights = self._weights
        return WordCacheStatistics(0, 0, 0, self.max_cached_words) if weights is None else weights.words.statistics

    def forget_words(self) -> None:
        """Empty the memory of words and its statistics."""
        weights = self._weights
        if weights is not None:
            weights.words.clear()

    def _stream(self, sentences: Iterable[Sequence[str]], layers: Layers, window: int) -> Iterator[np.ndarray]:
        collected: list[Sequence[str]] = []
        positions, done = 0, 0
        for sentence in sentences:
            collected.append(sentence)
            positions += len(sentence) + 2
            if positions >= window:
                yield from self._embed(collected, done, layers)
                done += len(collected)
                collected, positions = [], 0
        yield from self._embed(collected, done, layers)

    @torch.inference_mode()
    def _embed(self, sentences: Sequence[Sequence[str]], first: int, layers: Layers) -> list[np.ndarray]:
        """Vectors of sentences that are numbered from `first` on."""
        if not sentences:
            return []
        weights = self._current_weights()
        spelled = self._spell(sentences, first)
        choice = choose(layers, self.model.config, self.model.scalar_mix)
        token_vectors = weights.words(spelled.rows)  # (U, P)
        ends = np.cumsum(spelled.lengths)
        vectors: list[np.ndarray] = [np.empty(0)] * len(sentences)
        for batch in self._batches(spelled.lengths):
            words = np.concatenate([spelled.words[ends[i] - spelled.lengths[i] : ends[i]] for i in batch])  # (N,)
            lengths = [spelled.lengths[i] for i in batch]
            choice.start(len(words), token_vectors)
            weights.bilm.read(
                token_vectors,
                torch.from_numpy(words).to(token_vectors.device),
                lengths,
                choice.depth,
                choice.receive,
            )
            for index, vector in zip(batch, _split(choice, lengths), strict=True):
                vectors[index] = vector
        return vectors

    def _current_weights(self) -> "_PackedWeights":
        with self._lock:
            if self._weights is None or not self._weights.snapshot.matches(self.model):
                self._weights = None  # its memory is free for the new ones
                self._weights = self._pack()
            return self._weights

    def _pack(self) -> "_PackedWeights":
        model, precision = self.model, self.precision
        check_precision(precision, model.device)
        exact = model.dtype == torch.float64 and precision == "fp32"
        dtype = torch.float64 if exact else torch.float32
        cnn = PackedCharacterCNN(model.character_cnn, dtype=dtype)
        return _PackedWeights(
            WeightsSnapshot(model),
            WordVectors(cnn, capacity=self.max_cached_words, device=model.device),
            PackedBiLM(model, dtype=dtype, precision=precision),
        )

    def _spell(self, sentences: Sequence[Sequence[str]], first: int) -> "_Spelled":
        length = self.model.config.max_characters_per_word
        for number, sentence in enumerate(sentences, start=first):
            if isinstance(sentence, str):
                raise TypeError(f"sentence {number}: got the string {sentence!r}; expected a list of words.")
        place = {BOS_WORD: 0, EOS_WORD: 1}
        try:
            words = [
                place.setdefault(word, len(place))
                for sentence in sentences
                for word in itertools.chain((BOS_WORD,), sentence, (EOS_WORD,))
            ]
            rows = words_to_character_ids(list(place), max_characters_per_word=length)
        except (TypeError, ValueError):
            for number, sentence in enumerate(sentences, start=first):
                try:
                    words_to_character_ids(sentence, max_characters_per_word=length)
                except (TypeError, ValueError) as error:
                    raise type(error)(f"sentence {number}: {error}") from error
            raise
        return _Spelled(rows, np.array(words), [len(sentence) + 2 for sentence in sentences])

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Indices of sentences of similar length, as many as fit."""
        batch: list[int] = []
        for index in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
            longest = lengths[batch[0]] if batch else lengths[index]
            if batch and longest * (len(batch) + 1) > self.max_words_per_batch:
                yield batch
                batch = []
            batch.append(index)
        if batch:
            yield batch

    def __getstate__(self) -> dict[str, Any]:
        """Without what can be made anew: a copy packs its weights when it is first used."""
        return {**self.__dict__, "_lock": None, "_weights": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())


def check_is_model(model: object, *, load: str) -> None:
    """Refuse what is no biLM with a mix, and say where one is.

    Args:
        model: what was given.
        load: what to write where it is a path.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(model, ElmoModel):
        return
    hint = ""
    if isinstance(getattr(model, "elmo", None), ElmoModel):
        hint = ": pass its biLM, model.elmo"
    elif isinstance(model, str | Path) or model is None:
        hint = f": write {load}"
    raise TypeError(f"model: got {type(model).__name__}; expected an ElmoModel{hint}.")


class _PackedWeights(NamedTuple):
    """A model's weights as they were when the snapshot was taken."""

    snapshot: WeightsSnapshot
    words: WordVectors
    bilm: PackedBiLM


class _Spelled(NamedTuple):
    """Sentences with their boundaries: distinct words (U, C), which of them stand where (N,), sentences' lengths."""

    rows: NDArray[np.int64]
    words: NDArray[np.int64]
    lengths: list[int]


def _split(choice: Choice, lengths: Sequence[int]) -> Iterator[np.ndarray]:
    """Each sentence's vectors in memory of their own, without boundaries."""
    result = choice.result().float().cpu().numpy()  # (..., N, 2P)
    end = 0
    for length in lengths:
        end += length
        vectors = result[..., end - length + 1 : end - 1, :]
        yield vectors if len(lengths) == 1 else vectors.copy()
