"""`spacy_elmo.ElmoListener.v1`: another component's place where the shared biLM's layers arrive."""

import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats3d

from spacy_elmo.doc_sentences import FloatArray
from spacy_elmo.elmo_source import no_gradient
from spacy_elmo.handed_layers import ANY, HandedLayers, handed_to

if TYPE_CHECKING:
    from spacy_elmo.fine_tuning import TrainingBatch
    from spacy_elmo.upstream import Upstream

InT = list[Doc]
OutT = list[Floats3d]


def build_elmo_listener(width: int, layers: int, upstream: str = ANY, grad_factor: float = 1.0) -> Model[InT, OutT]:
    """Transport only: the layers that a component `elmo` computed, in the shape in which `ElmoModel.v1` gives them.

    Args:
        width: width of the biLM's layers.
        layers: their number, token layer included.
        upstream: name of the component, or `"*"` for the nearest one before.
        grad_factor: factor on the gradients that are sent to a biLM that is fine-tuned; 0 sends none.

    Shape:
        per doc (tokens, layers, width)
    """
    if width < 1 or layers < 1:
        raise ValueError(
            f"ElmoListener: got width = {width} and layers = {layers}; expected those of the biLM (256 and 3 for the "
            "shipped one), see hidden size and layers in its config.json."
        )
    return ElmoListener(width=width, layers=layers, upstream=upstream, grad_factor=grad_factor)


class ElmoListener(Model[InT, OutT]):
    """See `build_elmo_listener`; a class of its own, as spaCy's listeners, so that upstream components find it."""

    def __init__(self, *, width: int, layers: int, upstream: str, grad_factor: float) -> None:
        super().__init__("elmo_listener", forward, init=init, dims={"nO": width, "nL": layers})
        self.upstream_name = upstream
        self.grad_factor = grad_factor
        self.component_name: str | None = None
        self.sample: frozenset[int] = frozenset()  # ids of docs that shapes are inferred from
        self._upstream = UpstreamLink(None)

    @property
    def upstream(self) -> "Upstream | None":
        """The component that was linked last, while it exists."""
        return self._upstream()

    def link(self, upstream: "Upstream", component_name: str) -> None:
        """Remember who computes the layers, and whom this listener belongs to.

        Sizes are not compared yet: a saved pipeline is linked before its own weights are read, and with `"*"` a nearer
        component may be linked after this one.
        """
        self._upstream = UpstreamLink(upstream)
        self.component_name = component_name

    def unlink(self) -> None:
        """Forget the upstream component."""
        self._upstream = UpstreamLink(None)

    @property
    def sizes(self) -> tuple[int, int]:
        """Width and number of layers."""
        return self.get_dim("nO"), self.get_dim("nL")

    @property
    def where(self) -> str:
        """For messages: whose listener, to whom it listens."""
        owner = f"component {self.component_name!r}" if self.component_name else "a component"
        return f"ElmoListener of {owner} (upstream = {self.upstream_name!r})"

    def check_sizes(self, model: Model) -> None:
        """Raise if a biLM is known to have other sizes."""
        sizes = tuple(model.maybe_get_dim(name) for name in ("nO", "nL"))
        if None not in sizes and sizes != self.sizes:
            raise ValueError(self._misfit(sizes))

    def check(self, layers: FloatArray) -> None:
        """Raise unless the layers have the promised shape."""
        if (layers.shape[2], layers.shape[1]) != self.sizes:
            raise ValueError(self._misfit((layers.shape[2], layers.shape[1])))

    def _misfit(self, sizes: Sequence[int | None]) -> str:
        return (
            f"{self.where}: got {sizes[1]} layers of width {sizes[0]} from upstream; expected {self.get_dim('nL')} of "
            f"width {self.get_dim('nO')}. Set width = {sizes[0]} and layers = {sizes[1]} in its block, or upstream to "
            "the name of the component whose layers it is to have."
        )

    def _copy(self, seen: dict[int, Any] | None = None) -> "ElmoListener":
        copied = ElmoListener(
            width=self.get_dim("nO"),
            layers=self.get_dim("nL"),
            upstream=self.upstream_name,
            grad_factor=self.grad_factor,
        )
        if self.upstream is not None and self.component_name is not None:
            self.upstream.know(copied, self.component_name)
        return copied


class UpstreamLink:
    """A weak reference that can be pickled, and that a deep copy of the listener shares."""

    def __init__(self, upstream: "Upstream | None") -> None:
        self._reference = None if upstream is None else weakref.ref(upstream)

    def __call__(self) -> "Upstream | None":
        """The component, while it exists."""
        return None if self._reference is None else self._reference()

    def __deepcopy__(self, memo: dict[int, Any]) -> "UpstreamLink":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return UpstreamLink, (self(),)


def init(model: ElmoListener, X: InT | None = None, Y: OutT | None = None) -> None:
    """Note the docs from which shapes are about to be inferred: zeros are enough for these."""
    model.sample = frozenset(map(id, X or ()))


def forward(model: ElmoListener, docs: InT, is_train: bool) -> tuple[OutT, Callable[[OutT], list[Any]]]:
    """Give the layers attached to the docs; in training, send their gradients back."""
    handed = [handed_to(doc, model.upstream_name) for doc in docs]
    if is_train:
        return _train(model, handed)
    return [_as_array(model, layers) for layers in _predict(model, docs, handed)], no_gradient


def _as_array(model: Model, layers: FloatArray) -> Floats3d:
    return model.ops.asarray3f(cast(Floats3d, layers))


def _train(model: ElmoListener, maybe_handed: list[HandedLayers | None]) -> tuple[OutT, Callable[[OutT], list[Any]]]:
    model.sample = frozenset()
    handed = [one for one in maybe_handed if one is not None]
    if len(handed) < len(maybe_handed):
        raise ValueError(_missing_in_training(model))
    for one in handed:
        model.check(one.layers)
    batches: set[TrainingBatch] = {one.batch for one in handed if one.batch is not None}
    outputs = [_as_array(model, one.layers) for one in handed]
    if not batches:
        return outputs, no_gradient
    for batch in batches:
        batch.open(model)

    def backprop(d_layers: OutT) -> list[Any]:
        for one, gradient in zip(handed, d_layers, strict=True):
            if one.batch is not None and model.grad_factor:
                one.batch.add(one.index, model.ops.to_numpy(gradient) * model.grad_factor)
        for batch in batches:
            batch.close(model)
        return []

    return outputs, backprop


def _predict(model: ElmoListener, docs: InT, handed: list[HandedLayers | None]) -> list[FloatArray]:
    """Layers that were not handed out are asked for: `span.as_doc()` and `pickle` leave them behind."""
    missing = [doc for doc, one in zip(docs, handed, strict=True) if one is None]
    found = iter(_ask_upstream(model, missing))
    layers = [next(found) if one is None else one.layers for one in handed]
    for one in layers:
        model.check(one)
    return layers


def _ask_upstream(model: ElmoListener, docs: InT) -> list[FloatArray]:
    if all(id(doc) in model.sample for doc in docs):
        return _zeros(model, docs)
    if model.upstream is None:
        warnings.warn(_missing_in_prediction(model), stacklevel=2)
        return _zeros(model, docs)
    return model.upstream.layers_of(docs)


def _zeros(model: ElmoListener, docs: InT) -> list[FloatArray]:
    return [np.zeros((len(doc), model.get_dim("nL"), model.get_dim("nO")), dtype=np.float32) for doc in docs]


def _missing_in_training(model: ElmoListener) -> str:
    upstream = "elmo" if model.upstream_name == ANY else model.upstream_name
    return (
        f"{model.where}: got a doc without ELMo's layers while training; expected the component {upstream!r} to have "
        f"handed them out. It must be in the pipeline before this one and enabled, and under the name that `upstream` "
        f"says. If it is among frozen_components, let it annotate too: [training] annotating_components = "
        f'["{upstream}"]; or take it out of them: its weights do not change anyway as long as it has frozen = true. '
        "nlp.rehearse() needs docs that have been through the pipeline."
    )


def _missing_in_prediction(model: ElmoListener) -> str:
    return (
        f"{model.where}: got a doc without ELMo's layers, and no component to ask for them; its predictions are made "
        "from zeros. Put the component 'elmo' before it into the pipeline, under the name that `upstream` says."
    )
