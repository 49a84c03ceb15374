"""The pipeline component `elmo`: every token's mixed vector, and the biLM's layers for those who listen."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import srsly
import torch
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Model

from hf_elmo import ElmoModel
from hf_elmo.embedder import ElmoEmbedder
from hf_elmo.model_source import load_model
from spacy_elmo.doc_sentences import FloatArray, place_rows, sentence_rows, sentence_words
from spacy_elmo.elmo_source import build_elmo_model
from spacy_elmo.fine_tuning import FineTuning
from spacy_elmo.handed_layers import HandedLayers, hand_out
from spacy_elmo.upstream import Upstream
from spacy_elmo.vectors import set_hooks

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


class ElmoComponent(Upstream, Pipe):
    """Set `doc._.elmo` and what is read from it (see [`spacy_elmo.vectors`][spacy_elmo.vectors]).

    One input of the biLM is a sentence where the doc has sentence boundaries, otherwise the whole doc: put a
    `sentencizer` or a parser before this component.  Whitespace tokens are not shown to the biLM.

    Other components share the biLM through `spacy_elmo.ElmoListener.v1`.  It is frozen by default: in training it
    hands its layers out and learns nothing, its own scalar mix included.

    The weights are loaded when they are first needed, because `spacy.load` builds a component before it reads
    the weights saved with it.

    Args:
        name: the component's name in its pipeline.
        model: folder or Hub id of an ELMo in Hugging Face's format; None is the one that comes with hf_elmo; or a
            model of the architecture `spacy_elmo.ElmoModel.v1`.
        revision: branch, tag or commit of a Hub id; belongs into the architecture's block where there is one.
        all_layers: also keep every layer, in `doc._.elmo_layers`.
        max_words_per_batch: how many words, padding included, the biLM reads at once; less saves memory.  None is
            the architecture's 4096.
        precision: of the LSTMs' products: `"fp32"` (exact), `"bf16"` or `"int8"` (faster, rounded; not on every CPU).
            None is the architecture's "fp32".
        set_vectors: make `vector`, `has_vector` and `similarity` of tokens, spans and docs read ELMo.
        frozen: keep the biLM as it is; False trains it by the listeners' gradients.
        learning_rate_factor: see [`FineTuning`][spacy_elmo.fine_tuning.FineTuning], as the next.
        unfreeze_after: after how many steps each layer begins to learn, from the top; None: all at once.
    """

    def __init__(
        self,
        *,
        name: str = "elmo",
        model: Model | str | None = None,
        revision: str | None = None,
        all_layers: bool = False,
        max_words_per_batch: int | None = None,
        precision: str | None = None,
        set_vectors: bool = True,
        frozen: bool = True,
        learning_rate_factor: float = 1.0,
        unfreeze_after: Sequence[int] | None = None,
    ) -> None:
        if isinstance(model, Model):
            if revision is not None:
                raise ValueError(f"revision: got {revision!r} beside a block `model`; expected it inside the block.")
        else:
            name_or_path, model = model, build_elmo_model(model, revision)
            model.attrs["replace_listener_cfg"] = partial(_model_block, name_or_path, revision)
        if frozen and (unfreeze_after is not None or learning_rate_factor != 1.0):
            raise ValueError(
                f"got frozen = true with learning_rate_factor = {learning_rate_factor} and unfreeze_after = "
                f"{unfreeze_after}; expected frozen = false, or neither of the two."
            )
        super().__init__(
            name=name,
            model=model,
            fine_tuning=None
            if frozen
            else FineTuning(learning_rate_factor=learning_rate_factor, unfreeze_after=unfreeze_after),
        )
        if max_words_per_batch is not None:
            self.max_words_per_batch = max_words_per_batch
        if precision is not None:
            self.precision = precision
        self.all_layers = all_layers
        self.set_vectors = set_vectors

    @property
    def bilm(self) -> ElmoModel:
        """The biLM with its scalar mix; loaded by the first use.

        Raises:
            OSError: there is no such model; the message says where it was looked for.
            ValueError: what is there is no ELMo model.
        """
        return self.shim.model

    @bilm.setter
    def bilm(self, bilm: ElmoModel) -> None:
        self.shim.model = bilm
        self._set_sizes()

    @property
    def source(self) -> str | None:
        """Folder or Hub id that the weights came from; None is the model that comes with hf_elmo."""
        return self.shim.name

    @property
    def max_words_per_batch(self) -> int:
        """How many words, padding included, the biLM reads at once."""
        return self.shim.max_words_per_batch

    @max_words_per_batch.setter
    def max_words_per_batch(self, max_words_per_batch: int) -> None:
        self.shim.max_words_per_batch = max_words_per_batch

    @property
    def precision(self) -> str:
        """Of the LSTMs' products."""
        return self.shim.precision

    @precision.setter
    def precision(self, precision: str) -> None:
        self.shim.precision = precision

    @property
    def width(self) -> int:
        """Length of a token's vector."""
        return int(self.bilm.config.hidden_size)

    def load(self) -> ElmoEmbedder:
        """Load the weights if they are not there yet, with the errors of `bilm`."""
        return self.shim.embedder

    def initialize(self, get_examples: Callable[[], Iterable[Example]], *, nlp: Language | None = None) -> None:
        """Load the weights, so that a wrong `model` shows before training starts."""
        self.model.initialize()
        for listener in self.listeners:
            listener.check_sizes(self.model)

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

    def predict(self, docs: Sequence[Doc]) -> list[DocVectors]:
        """Compute the vectors of docs and leave the docs as they are."""
        rows = [sentence_rows(doc) for doc in docs]
        mixed, layers = self._embed(sentence_words(docs, rows))
        width, depth = self.width, self.bilm.config.num_hidden_layers + 1
        return [
            DocVectors(
                mixed=place_rows(mixed, own, shape=(len(doc), width)),
                layers=None if layers is None else place_rows(layers, own, shape=(len(doc), depth, width)),
            )
            for doc, own in zip(docs, rows, strict=True)
        ]

    def set_annotations(self, docs: Iterable[Doc], predictions: Iterable[DocVectors]) -> None:
        """Store vectors on docs, and the hooks that read them; hand the layers out to listeners."""
        for doc, vectors in zip(docs, predictions, strict=True):
            doc._.elmo = vectors.mixed
            doc._.elmo_layers = vectors.layers if self.all_layers else None
            if self.set_vectors:
                set_hooks(doc)
            if vectors.layers is not None and self.known_listeners:
                hand_out(doc, self.name, HandedLayers(vectors.layers))

    def _embed(self, sentences: list[list[str]]) -> tuple[Iterator[FloatArray], Iterator[FloatArray] | None]:
        """Per sentence the mix (words, width) and, if anyone wants them, the layers (words, layers, width)."""
        if not self.all_layers and not self.known_listeners:
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
        return srsly.msgpack_dumps({}) if _FOLDER in exclude else self.shim.to_bytes()

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "ElmoComponent":
        """Load what `to_bytes` gave.

        Raises:
            ValueError: the bytes hold no model.
        """
        if _FOLDER in exclude:
            return self
        try:
            self.shim.from_bytes(bytes_data)
        except ValueError as error:
            raise ValueError(f"component {self.name!r}: {error}") from error
        self._set_sizes()
        return self

    def _set_sizes(self) -> None:
        """Say the sizes of weights that came in place of the configured ones."""
        self.model.set_dim("nO", self.bilm.config.hidden_size, force=True)
        self.model.set_dim("nL", self.bilm.config.num_hidden_layers + 1, force=True)


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


def _model_block(name: str | None, revision: str | None, model: Any, listener: Any) -> dict[str, Any]:
    """The block that `nlp.replace_listeners` writes in a listener's place where there was only a name."""
    return {"@architectures": "spacy_elmo.ElmoModel.v1", "name": name, "revision": revision}
