"""The pipeline component `elmo`: every token's mixed vector, computed from its sentence by a frozen biLM."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import safetensors.torch
import srsly
import torch
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc
from spacy.training import Example

from hf_elmo import ElmoConfig, ElmoModel
from hf_elmo.embedder import ElmoEmbedder
from hf_elmo.model_source import load_model
from hf_elmo.prepacked_linear import check_precision
from spacy_elmo.vectors import FloatArray, set_hooks

# A forked worker of nlp.pipe(..., n_process=2) inherits torch's thread pool without its threads and would
# wait for them for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))

# Docs are collected until they hold this many of the biLM's batches, so that sentences of one length meet.
_BATCHES_COLLECTED = 8
_FOLDER = "model"


class DocVectors(NamedTuple):
    """Vectors of one doc.

    Attributes:
        mixed: (tokens, width) the scalar mix; zeros at whitespace
        layers: (tokens, layers, width) the token layer and each biLSTM layer, or None
    """

    mixed: FloatArray
    layers: FloatArray | None = None


class ElmoComponent(Pipe):
    """Set `doc._.elmo` and what is read from it (see [`spacy_elmo.vectors`][spacy_elmo.vectors]).

    One input of the biLM is a sentence where the doc has sentence boundaries, otherwise the whole doc: put a
    `sentencizer` or a parser before this component.  Whitespace tokens are not shown to the biLM.

    The weights are loaded when they are first needed, because `spacy.load` builds a component before it reads
    the weights saved with it.

    Args:
        name: the component's name in its pipeline.
        model: folder or Hub id of an ELMo in Hugging Face's format; None is the one that comes with hf_elmo.
        revision: branch, tag or commit of a Hub id.
        all_layers: also keep every layer, in `doc._.elmo_layers`.
        max_words_per_batch: how many words, padding included, the biLM reads at once; less saves memory.
        precision: of the LSTMs' products: `"fp32"` (exact), `"bf16"` or `"int8"` (faster, rounded; not on every CPU).
        set_vectors: make `vector`, `has_vector` and `similarity` of tokens, spans and docs read ELMo.
    """

    def __init__(
        self,
        *,
        name: str = "elmo",
        model: str | None = None,
        revision: str | None = None,
        all_layers: bool = False,
        max_words_per_batch: int = 4096,
        precision: str = "fp32",
        set_vectors: bool = True,
    ) -> None:
        if max_words_per_batch < 1:
            raise ValueError(f"max_words_per_batch: got {max_words_per_batch}; expected at least 1.")
        self.name = name
        self.source = model
        self.revision = revision
        self.all_layers = all_layers
        self.max_words_per_batch = max_words_per_batch
        self.precision = check_precision(precision)
        self.set_vectors = set_vectors
        self._bilm: ElmoModel | None = None
        self._embedder: ElmoEmbedder | None = None

    @property
    def bilm(self) -> ElmoModel:
        """The biLM with its scalar mix; loaded by the first use.

        Raises:
            OSError: there is no such model; the message says where it was looked for.
            ValueError: what is there is no ELMo model.
        """
        bilm = self._bilm
        if bilm is None:
            bilm = self.bilm = load_model(self.source, revision=self.revision)
        return bilm

    @bilm.setter
    def bilm(self, bilm: ElmoModel) -> None:
        self._bilm = bilm
        self._embedder = None

    @property
    def width(self) -> int:
        """Length of a token's vector."""
        return int(self.bilm.config.hidden_size)

    def load(self) -> ElmoEmbedder:
        """Load the weights if they are not there yet, with the errors of `bilm`."""
        if self._embedder is None:
            self._embedder = ElmoEmbedder(
                self.bilm, max_words_per_batch=self.max_words_per_batch, precision=self.precision
            )
        return self._embedder

    def initialize(self, get_examples: Callable[[], Iterable[Example]], *, nlp: Language | None = None) -> None:
        """Load the weights, so that a wrong `model` shows before training starts."""
        self.load()

    def __call__(self, doc: Doc) -> Doc:
        """Set the vectors of one doc."""
        self.load()  # not left to the error handler: without a model no doc can succeed
        try:
            self.set_annotations([doc], self.predict([doc]))
        except Exception as error:
            self.get_error_handler()(self.name, self, [doc], error)
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Set the vectors of a stream of docs, in order.

        A doc that fails goes to the error handler alone; those collected with it are embedded without it.

        Args:
            stream: the docs.
            batch_size: how many docs are collected at most; long docs make it fewer.
        """
        self.load()
        max_words = _BATCHES_COLLECTED * self.max_words_per_batch
        for docs in _collect(stream, max_docs=batch_size, max_words=max_words):
            yield from self._annotate(docs)

    def _annotate(self, docs: list[Doc]) -> Iterator[Doc]:
        try:
            self.set_annotations(docs, self.predict(docs))
        except Exception as error:
            if len(docs) == 1:
                self.get_error_handler()(self.name, self, docs, error)
                return
        else:
            yield from docs
            return
        for doc in docs:
            yield from self._annotate([doc])

    def predict(self, docs: list[Doc]) -> list[DocVectors]:
        """Compute the vectors of docs and leave the docs as they are."""
        inputs = [_inputs(doc) for doc in docs]
        sentences = [[doc[i].text for i in rows] for doc, own in zip(docs, inputs, strict=True) for rows in own]
        mixed, layers = self._embed(sentences)
        width, depth = self.width, self.bilm.config.num_hidden_layers + 1
        return [
            DocVectors(
                mixed=_place(mixed, own, shape=(len(doc), width)),
                layers=None if layers is None else _place(layers, own, shape=(len(doc), depth, width)),
            )
            for doc, own in zip(docs, inputs, strict=True)
        ]

    def set_annotations(self, docs: Iterable[Doc], predictions: Iterable[DocVectors]) -> None:
        """Store vectors on docs, and the hooks that read them."""
        for doc, vectors in zip(docs, predictions, strict=True):
            doc._.elmo = vectors.mixed
            doc._.elmo_layers = vectors.layers
            if self.set_vectors:
                set_hooks(doc)

    def _embed(self, sentences: list[list[str]]) -> tuple[Iterator[FloatArray], Iterator[FloatArray] | None]:
        """Per sentence the mix (words, width) and, if asked for, the layers (words, layers, width)."""
        if not self.all_layers:
            return iter(self.load().embed(sentences, layers="mix")), None
        layers = self.load().embed(sentences, layers="all")  # each (layers, words, width)
        return iter(self._mix(layers)), (layer.swapaxes(0, 1) for layer in layers)

    @torch.inference_mode()
    def _mix(self, layers: list[FloatArray]) -> list[FloatArray]:
        """The scalar mix of layers that are there already: one pass of the biLM gives both."""
        if not layers:
            return []
        mix = self.bilm.scalar_mix
        assert mix is not None
        joined = torch.from_numpy(np.concatenate(layers, axis=1)).to(mix.weights)  # (layers, words, width)
        mask = torch.ones((1, joined.shape[1]), dtype=torch.bool, device=joined.device)
        mixed = mix(list(joined.unsqueeze(1)), mask)[0].float().cpu().numpy()  # (words, width)
        ends = np.cumsum([layer.shape[1] for layer in layers])
        return np.split(mixed, ends[:-1])

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Save the weights below `path`, as a Hugging Face folder `model` that `AutoModel` loads too."""
        if _FOLDER not in exclude:
            self.bilm.save_pretrained(Path(path) / _FOLDER)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "ElmoComponent":
        """Load the weights that `to_disk` saved.

        Raises:
            FileNotFoundError: the folder is not there.
        """
        if _FOLDER in exclude:
            return self
        folder = Path(path) / _FOLDER
        if not (folder / "config.json").is_file():
            raise FileNotFoundError(
                f"component {self.name!r}: got no saved model at {folder}; expected config.json and "
                f"model.safetensors there. Copy the whole folder of the pipeline, or load it with "
                f"exclude=[{self.name!r}] and add the component anew."
            )
        self.bilm = load_model(folder)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The configuration and weights, as the two files of a Hugging Face folder."""
        if _FOLDER in exclude:
            return srsly.msgpack_dumps({})
        weights = {key: value.contiguous() for key, value in self.bilm.state_dict().items()}
        return srsly.msgpack_dumps(
            {
                "config.json": self.bilm.config.to_json_string(use_diff=False),
                "model.safetensors": safetensors.torch.save(weights),
            }
        )

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "ElmoComponent":
        """Load what `to_bytes` gave.

        Raises:
            ValueError: the bytes hold no model.
        """
        if _FOLDER in exclude:
            return self
        files = srsly.msgpack_loads(bytes_data)
        if "config.json" not in files or "model.safetensors" not in files:
            raise ValueError(
                f"component {self.name!r}: got bytes that hold {sorted(files)}; expected config.json and "
                "model.safetensors, as ElmoComponent.to_bytes() writes them without exclude=['model']."
            )
        bilm = ElmoModel(ElmoConfig.from_dict(json.loads(files["config.json"])))
        bilm.load_state_dict(safetensors.torch.load(files["model.safetensors"]))
        self.bilm = bilm
        return self


def _collect(stream: Iterable[Doc], *, max_docs: int, max_words: int) -> Iterator[list[Doc]]:
    """Group docs until either bound is reached; spaCy's own batches of 1000 docs know no bound on words."""
    docs: list[Doc] = []
    words = 0
    for doc in stream:
        docs.append(doc)
        words += len(doc)
        if len(docs) >= max_docs or words >= max_words:
            yield docs
            docs, words = [], 0
    if docs:
        yield docs


def _inputs(doc: Doc) -> list[list[int]]:
    """The token indices of each of the biLM's inputs: the sentences, or the whole doc where none are set."""
    sentences = doc.sents if doc.has_annotation("SENT_START") else [doc]
    inputs = [[token.i for token in sentence if not token.is_space] for sentence in sentences]
    return [rows for rows in inputs if rows]


def _place(vectors: Iterator[FloatArray], inputs: list[list[int]], *, shape: tuple[int, ...]) -> FloatArray:
    """Put the next sentences' vectors at their tokens' rows of a doc; whitespace keeps zeros."""
    placed = np.zeros(shape, dtype=np.float32)
    for rows in inputs:
        placed[rows] = next(vectors)
    return placed
