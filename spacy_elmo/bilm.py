"""The biLM inside a thinc model: loaded when first needed, saved with it, and stepped by its optimizer."""

import contextlib
import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import safetensors.torch
import srsly
import torch
from spacy.tokens import Doc
from thinc.api import CupyOps, NumpyOps, Optimizer, get_current_ops
from thinc.shims import Shim
from thinc.types import FloatsXd
from thinc.util import torch2xp, xp2torch

from hf_elmo import ElmoConfig, ElmoModel
from hf_elmo.cached_layers import CachedLayers
from hf_elmo.embedder import ElmoEmbedder
from hf_elmo.layer_cache import LayerCache
from hf_elmo.model_source import load_model, located
from hf_elmo.prepacked_linear import Precision, check_precision
from hf_elmo.weights_snapshot import WeightsSnapshot
from spacy_elmo.annotation_cache import CacheOptions
from spacy_elmo.device import check_device, torch_device
from spacy_elmo.doc_sentences import FloatArray, consume, place_rows, sentence_rows, sentence_words
from spacy_elmo.weights_reference import WeightsReference

_FILES = {"config.json", "model.safetensors"}
_REFERENCE = "weights.json"


class BiLM(Shim):
    """An `ElmoModel` that thinc copies, saves, moves and trains.

    Args:
        name: folder or Hub id of an ELMo in Hugging Face's format; None is the one that comes with hf_elmo.
        revision: branch, tag or commit of a Hub id.
        max_words_per_batch: how many words, padding included, the biLM reads at once; less saves memory.
        precision: of the LSTMs' products, see [`ElmoEmbedder`][hf_elmo.embedder.ElmoEmbedder].
        device: where it computes, see [`torch_device`][spacy_elmo.device.torch_device].
        cache_options: how much of what it computed is kept.
        save_weights: False saves a reference to the weights in their place.
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        revision: str | None = None,
        max_words_per_batch: int = 4096,
        precision: str = "fp32",
        device: str | None = None,
        cache_options: CacheOptions | None = None,
        save_weights: bool = True,
    ) -> None:
        super().__init__(None)
        self.name = name
        self.revision = revision
        self.save_weights = save_weights
        self._from_source: WeightsSnapshot | None = None
        self._is_from_source = False
        self._embedder: ElmoEmbedder | None = None
        self._cached: CachedLayers | None = None
        self.max_words_per_batch = max_words_per_batch
        self.precision = precision
        self.device = device
        self.cache_options = cache_options or CacheOptions()

    @property
    def max_words_per_batch(self) -> int:
        """Bound on the positions of a batch."""
        return self._max_words_per_batch

    @max_words_per_batch.setter
    def max_words_per_batch(self, max_words_per_batch: int) -> None:
        if max_words_per_batch < 1:
            raise ValueError(f"max_words_per_batch: got {max_words_per_batch}; expected at least 1.")
        self._max_words_per_batch = max_words_per_batch
        self.changed()

    @property
    def precision(self) -> Precision:
        """Of the LSTMs' products."""
        return self._precision

    @precision.setter
    def precision(self, precision: str) -> None:
        self._precision = check_precision(precision)
        self.changed()

    @property
    def device(self) -> str | None:
        """Where the biLM computes; None is where spaCy does."""
        return self._device

    @device.setter
    def device(self, device: str | None) -> None:
        check_device(device)
        self._device = device
        if self._model is not None:
            self.model = self._model

    @property
    def cache_options(self) -> CacheOptions:
        """How much of what the biLM computed is kept."""
        return self._cache_options

    @cache_options.setter
    def cache_options(self, options: CacheOptions) -> None:
        self.cache: LayerCache | None = options.make()
        self._cache_options = options
        self.changed()

    @property
    def model(self) -> ElmoModel:
        """The biLM with its scalar mix; loaded by the first use.

        Raises:
            OSError: there is no such model; the message says where it was looked for.
            ValueError: what is there is no ELMo model, or the device is not there.
        """
        if self._model is None:
            self._take_from_source(load_model(self.name, revision=self.revision))
        loaded: ElmoModel = self._model
        return loaded

    @model.setter
    def model(self, model: ElmoModel) -> None:
        self._model = model.to(torch_device(self.device)).eval()  # type: ignore[arg-type]
        self._is_from_source = False
        self.changed()

    def _take_from_source(self, model: ElmoModel) -> None:
        self.model = model
        self._from_source = WeightsSnapshot(model)
        self._is_from_source = True

    def forget(self) -> None:
        """Load weights that came from the source from there again when they are next needed; others stay."""
        if self._is_from_source:
            self._model = None
            self.changed()

    def options(self) -> dict[str, Any]:
        """What `build_elmo_model` is told to make another of these."""
        return {
            "name": self.name,
            "revision": self.revision,
            "max_words_per_batch": self.max_words_per_batch,
            "precision": self.precision,
            "device": self.device,
            **self.cache_options._asdict(),
            "save_weights": self.save_weights,
        }

    @property
    def embedder(self) -> ElmoEmbedder:
        """What computes vectors without gradients."""
        if self._embedder is None:
            self._embedder = ElmoEmbedder(
                self.model, max_words_per_batch=self.max_words_per_batch, precision=self.precision
            )
        return self._embedder

    def changed(self) -> None:
        """Forget what was made for other weights or another bound."""
        self._embedder = None
        self._cached = None

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        """Width of a layer and number of layers, token layer included.

        Read without a network and without loading the weights; None where they are nowhere on this machine yet.
        """
        config = _local_config(self.name, self.revision) if self._model is None else self._model.config
        return (None, None) if config is None else (config.hidden_size, config.num_hidden_layers + 1)

    def layers_of(self, docs: Sequence[Doc]) -> list[FloatArray]:
        """Every layer of every token, without gradients; zeros at whitespace.

        Shape:
            per doc (tokens, layers, width)
        """
        rows = [sentence_rows(doc) for doc in docs]
        vectors = self.layers_of_sentences(sentence_words(docs, rows))
        config = self.model.config
        size = (config.num_hidden_layers + 1, config.hidden_size)
        return [place_rows(vectors, own, shape=(len(doc), *size)) for doc, own in zip(docs, rows, strict=True)]

    def layers_of_sentences(self, sentences: Sequence[Sequence[str]]) -> Iterator[FloatArray]:
        """Every layer of every word, without gradients; from the cache where there is one.

        Each array is let go of when the next is asked for.

        Shape:
            per sentence (words, layers, width)
        """
        if self.cache is None:
            embedded = consume(self.embedder.embed(sentences, layers="all"))  # each (layers, words, width)
        else:
            if self._cached is None:
                self._cached = CachedLayers(self.embedder, self.cache)
            embedded = self._cached.embed(sentences)
        return (layers.swapaxes(0, 1) for layers in embedded)

    def __getstate__(self) -> dict[str, Any]:
        """Transformers leaves hooks in a model that cannot be pickled."""
        own = {"_embedder": None, "_cached": None, "_from_source": None}
        return {**self.__dict__, **own, "_model": None if self._model is None else self._weights_to_bytes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._model is not None:
            self.from_bytes(self._model)

    # What thinc asks of a shim

    def copy(self) -> "BiLM":
        """An independent copy with the same weights."""
        copied = BiLM(
            name=self.name,
            revision=self.revision,
            max_words_per_batch=self.max_words_per_batch,
            precision=self.precision,
            device=self.device,
            cache_options=self.cache_options,
            save_weights=self.save_weights,
        )
        copied._model = copy.deepcopy(self._model)
        copied._is_from_source = self._is_from_source
        return copied

    def finish_update(self, optimizer: Optimizer, *, lr_scale: float = 1.0) -> None:
        """Step every parameter that has a gradient; one that has none, as all of a frozen biLM, keeps its bits."""
        if self._model is None:
            return
        for name, parameter in self._model.named_parameters():
            if parameter.grad is None:
                continue
            weights, gradient = _as_optimized(parameter.data), _as_optimized(parameter.grad)
            weights, _ = optimizer((self.id, name), weights, gradient, lr_scale=lr_scale)
            parameter.data = xp2torch(weights, device=parameter.device)
            parameter.grad = None
            self.changed()

    @contextlib.contextmanager
    def use_params(self, params: Mapping[Any, Any]) -> Iterator[None]:
        """Exchange parameters for an optimizer's averages, as thinc's own layers do."""
        own = dict(self._model.named_parameters()) if self._model is not None else {}
        kept = {name: parameter.data for name, parameter in own.items() if (self.id, name) in params}
        if not kept:
            yield
            return
        for name, data in kept.items():
            own[name].data = xp2torch(params[self.id, name], device=data.device)
        self.changed()
        try:
            yield
        finally:
            for name, data in kept.items():
                own[name].data = data
            self.changed()

    def to_device(self, device_type: str, device_id: int) -> None:
        """Move the weights where thinc moves the rest of the model, unless they have a device of their own."""
        if self._model is not None and self.device is None:
            self._model.to("cpu" if device_type == "cpu" else f"cuda:{device_id}")
            self.changed()

    def to_bytes(self) -> bytes:
        """The configuration and weights, as the two files of a Hugging Face folder; or a reference to them."""
        if self.save_weights:
            return self._weights_to_bytes()
        return srsly.msgpack_dumps({_REFERENCE: self.reference()._asdict()})

    def _weights_to_bytes(self) -> bytes:
        weights = {key: value.contiguous() for key, value in self.model.state_dict().items()}
        return srsly.msgpack_dumps(
            {
                "config.json": self.model.config.to_json_string(use_diff=False),
                "model.safetensors": safetensors.torch.save(weights),
            }
        )

    def from_bytes(self, data: bytes) -> "BiLM":
        """Load what `to_bytes` gave.

        Raises:
            ValueError: the bytes hold no model, or refer to one that has changed.
            OSError: they refer to one that is not there.
        """
        files = srsly.msgpack_loads(data)
        if _REFERENCE in files:
            self.load_reference(WeightsReference.from_json(files[_REFERENCE]))
            return self
        if not files.keys() >= _FILES:
            raise ValueError(
                f"got bytes that hold {sorted(files)}; expected config.json and model.safetensors, as to_bytes() "
                "writes them."
            )
        model = ElmoModel(ElmoConfig.from_dict(json.loads(files["config.json"])))
        model.load_state_dict(safetensors.torch.load(files["model.safetensors"]))
        self.model = model
        return self

    def reference(self) -> WeightsReference:
        """Where the weights came from, and their hash.

        Raises:
            ValueError: they have changed since.
        """
        model = self.model
        unchanged = self._from_source is not None and self._from_source.matches(model)
        return WeightsReference.of(model, source=self.name, revision=self.revision, unchanged=unchanged)

    def load_reference(self, reference: WeightsReference) -> None:
        """Load weights that were not saved.

        Raises:
            ValueError: they have changed.
            OSError: they are not there.
        """
        self._take_from_source(reference.load(source=self.name, revision=self.revision))


def _as_optimized(tensor: torch.Tensor) -> FloatsXd:
    """As an array for thinc's optimizer, which need not be on the biLM's device."""
    ops = get_current_ops()
    return cast(FloatsXd, torch2xp(tensor, ops=ops if isinstance(ops, CupyOps) else NumpyOps()))


def _local_config(name: str | None, revision: str | None) -> ElmoConfig | None:
    """The configuration, if it is a folder's or in the Hub's cache; loading the weights says what is wrong."""
    try:
        config = ElmoConfig.get_config_dict(located(name), revision=revision, local_files_only=True)[0]
        return ElmoConfig.from_dict(config) if config.get("model_type") == ElmoConfig.model_type else None
    except (OSError, ValueError):
        return None
