"""The pipeline component `elmo`: every token's mixed vector, and the biLM's layers for those who listen."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Model

from hf_elmo.embedder import ElmoEmbedder
from spacy_elmo.doc_sentences import FloatArray, Rows, consume, is_whole_doc, sentence_rows, sentence_words
from spacy_elmo.elmo_source import build_elmo_model
from spacy_elmo.fine_tuning import FineTuning
from spacy_elmo.handed_layers import HandedLayers, hand_out, handed_to
from spacy_elmo.saved_weights import SavedWeights
from spacy_elmo.vectors import set_hooks

# A forked worker of nlp.pipe(..., n_process=2) inherits torch's thread pool without its threads and would
# wait for them for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))

# Docs are collected until they hold this many of the biLM's batches, so that sentences of one length meet.
_BATCHES_COLLECTED = 8


class DocVectors(NamedTuple):
    """Vectors of one doc.

    Attributes:
        mixed: (tokens, width) the scalar mix; zeros at whitespace
        layers: (tokens, layers, width) the token layer and each biLSTM layer, or None
    """

    mixed: FloatArray
    layers: FloatArray | None = None


class ElmoComponent(SavedWeights, Pipe):
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
        device: "cpu", "cuda", "cuda:0" or "mps"; None, as for the next, is the architecture's, which by default is
            where spaCy computes.  A GPU needs PyTorch only, not cupy.
        cache_size: how many bytes of sentences' layers are kept in memory, so that none is computed twice, such as in
            every epoch of training; 0 by default.  Only while the biLM is frozen.
        cache_dir: folder in which they are kept for later runs and other programs.
        cache_dir_size: bound on that folder, in bytes; 20 GB by default.
        store_dtype: "float32" keeps in the cache what was computed, to the bit; "float16" takes half the room.
        save_weights: False saves where the weights came from, and their hash, in place of the weights; True by default.
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
        device: str | None = None,
        cache_size: int | None = None,
        cache_dir: str | None = None,
        cache_dir_size: int | None = None,
        store_dtype: str | None = None,
        save_weights: bool | None = None,
    ) -> None:
        if isinstance(model, Model):
            if revision is not None:
                raise ValueError(f"revision: got {revision!r} beside a block `model`; expected it inside the block.")
        else:
            model = build_elmo_model(model, revision)
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
        if device is not None:
            self.shim.device = device
        if save_weights is not None:
            self.shim.save_weights = save_weights
        self.set_cache(
            cache_size=cache_size, cache_dir=cache_dir, cache_dir_size=cache_dir_size, store_dtype=store_dtype
        )
        self.all_layers = all_layers
        self.set_vectors = set_vectors
        # nlp.replace_listeners is to write the options too that stand next to `model`.
        model.attrs["replace_listener_cfg"] = partial(_model_block, self.shim.options())

    def set_cache(self, **options: Any) -> None:
        """Change options of the cache, `cache_size`, `cache_dir`, `cache_dir_size` and `store_dtype`; None keeps one.

        Raises:
            ValueError: an option out of range, or a cache for a biLM that is trained.
        """
        options = {name: value for name, value in options.items() if value is not None}
        if options:
            self.shim.cache_options = self.shim.cache_options.changed(**options)
        if self.fine_tuning is not None:
            self._check_fine_tuned()

    def _check_fine_tuned(self) -> None:
        if self.shim.cache is not None:
            options = self.shim.cache_options
            raise ValueError(
                f"got frozen = false with cache_size = {options.cache_size} and cache_dir = {options.cache_dir!r}; "
                "expected frozen = true, or 0 and null: the layers of a biLM that is trained change at every step."
            )
        if not self.shim.save_weights:
            raise ValueError(
                "got frozen = false with save_weights = false; expected save_weights = true: the weights of a biLM "
                "that is trained are nowhere else."
            )

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

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        cache_size: int | None = None,
        cache_dir: str | None = None,
        cache_dir_size: int | None = None,
        store_dtype: str | None = None,
    ) -> None:
        """Load the weights, so that a wrong `model` shows before training starts.

        A biLM that was trained since it was loaded from its source is loaded again.  Weights that came otherwise, by
        `bilm` or with a saved pipeline, stay.

        In a configuration's `[initialize.components.elmo]` the options of the cache hold while the pipeline is trained;
        the one that is saved has those of `[components.elmo]`.  spaCy passes over that block where the component is
        sourced or among `frozen_components`; [`set_cache`][spacy_elmo.training_cache.set_cache] reaches it there too.

        Args:
            get_examples: not read.
            nlp: not read.
            cache_size: as the component's, and as the next; None keeps what it has.
            cache_dir: as the component's.
            cache_dir_size: as the component's.
            store_dtype: as the component's.
        """
        self.set_cache(
            cache_size=cache_size, cache_dir=cache_dir, cache_dir_size=cache_dir_size, store_dtype=store_dtype
        )
        if self.fine_tuning is not None:
            self.fine_tuning.restart(self.shim)
        self.model.initialize()
        self.check_listeners()

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
        vectors = self._embed(sentence_words(docs, rows))
        return [self._place(vectors, own, len(doc)) for doc, own in zip(docs, rows, strict=True)]

    def set_annotations(self, docs: Iterable[Doc], predictions: Iterable[DocVectors]) -> None:
        """Store vectors on docs, and the hooks that read them; hand the layers out to listeners."""
        for doc, vectors in zip(docs, predictions, strict=True):
            doc._.elmo = vectors.mixed
            doc._.elmo_layers = vectors.layers if self.all_layers else None
            if self.set_vectors:
                set_hooks(doc)
            if vectors.layers is not None and self.known_listeners and not self._learns_from(doc):
                hand_out(doc, self.name, HandedLayers(vectors.layers))

    def _learns_from(self, doc: Doc) -> bool:
        """Whether the doc's layers wait for gradients: `annotating_components` may annotate it in that time."""
        return self.fine_tuning is not None and self.fine_tuning.is_open(handed_to(doc, self.name))

    def _embed(self, sentences: list[list[str]]) -> Iterator[DocVectors]:
        """Per sentence the mix (words, width) and, if anyone wants them, the layers (words, layers, width)."""
        if not self._keeps_layers and self.shim.cache is None:
            return map(DocVectors, consume(self.load().embed(sentences, layers="mix")))
        return (DocVectors(self._mix(layers), layers) for layers in self.shim.layers_of_sentences(sentences))

    @property
    def _keeps_layers(self) -> bool:
        return self.all_layers or bool(self.known_listeners)

    @torch.inference_mode()
    def _mix(self, layers: FloatArray) -> FloatArray:
        """The scalar mix of layers that are there already: (words, layers, width) → (words, width)."""
        mix = self.bilm.scalar_mix
        assert mix is not None
        # A cache's layers cannot be written to, of which PyTorch would warn.
        given = torch.from_numpy(layers) if layers.flags.writeable else torch.tensor(layers)
        one = given.unsqueeze(0).to(mix.weights)  # (1, words, layers, width)
        mask = torch.ones(one.shape[:2], dtype=torch.bool, device=one.device)
        mixed: FloatArray = mix(list(one.unbind(2)), mask)[0].float().cpu().numpy()
        return mixed

    def _place(self, vectors: Iterator[DocVectors], rows: Rows, tokens: int) -> DocVectors:
        """The next sentences' vectors at their tokens' rows of a doc; whitespace keeps zeros."""
        keep = self._keeps_layers
        if is_whole_doc(rows, tokens):
            mixed, layers = next(vectors)
            return DocVectors(mixed, _own(layers) if keep and layers is not None else None)
        width, depth = self.width, self.bilm.config.num_hidden_layers + 1
        mixed = np.zeros((tokens, width), dtype=np.float32)
        layers = np.zeros((tokens, depth, width), dtype=np.float32) if keep else None
        for sentence in rows:
            one = next(vectors)
            mixed[sentence] = one.mixed
            if layers is not None:
                layers[sentence] = one.layers
        return DocVectors(mixed, layers)


def _own(layers: FloatArray) -> FloatArray:
    """To be given away: a cache keeps its own."""
    return layers if layers.flags.writeable else layers.copy()


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


def _model_block(options: dict[str, Any], model: Any, listener: Any) -> dict[str, Any]:
    """The block that `nlp.replace_listeners` writes in a listener's place."""
    return {"@architectures": "spacy_elmo.ElmoModel.v1", **options}
