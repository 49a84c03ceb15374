"""The upstream half of spaCy's listener protocol: one biLM, and the layers in other components that wait for it."""

import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from thinc.api import Model, Optimizer
from thinc.types import FloatsXd

from spacy_elmo.bilm import BiLM
from spacy_elmo.doc_sentences import FloatArray
from spacy_elmo.elmo_source import bilm_of
from spacy_elmo.fine_tuning import FineTuning
from spacy_elmo.handed_layers import ANY, HandedLayers, hand_out
from spacy_elmo.listener import ElmoListener


class WeakListeners(weakref.WeakSet[ElmoListener]):
    """Listeners for as long as their components exist; can be pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return WeakListeners, (list(self),)


class Upstream:
    """A component whose layers others listen to.

    spaCy clears `listener_map` whenever it links a pipeline, and then passes over the components that are disabled
    at that moment, those that `spacy train` freezes or resumes among them.  Who has ever listened, and still exists,
    is therefore remembered apart.

    Args:
        name: the component's name in its pipeline.
        model: of the architecture `spacy_elmo.ElmoModel.v1`.
        fine_tuning: how the biLM is trained; None keeps it frozen.
    """

    def __init__(self, *, name: str, model: Model, fine_tuning: FineTuning | None) -> None:
        bilm_of(model)
        self.name = name
        self.model = model
        self.fine_tuning = fine_tuning
        self.listener_map: dict[str, list[ElmoListener]] = {}
        self._known = WeakListeners()

    @property
    def shim(self) -> BiLM:
        """The biLM's weights inside `model`."""
        return bilm_of(self.model)

    @property
    def is_trainable(self) -> bool:
        """Whether training changes this component: not as long as it is frozen."""
        return self.fine_tuning is not None

    def layers_of(self, docs: Sequence[Doc]) -> list[FloatArray]:
        """Per doc every layer of every token, (tokens, layers, width)."""
        return self.shim.layers_of(docs)

    @property
    def listeners(self) -> list[ElmoListener]:
        """The listeners of the pipeline's components."""
        return [listener for listeners in self.listener_map.values() for listener in listeners]

    @property
    def listening_components(self) -> list[str]:
        """Names of the components that listen."""
        return list(self.listener_map)

    @property
    def known_listeners(self) -> list[ElmoListener]:
        """All that were ever added and not removed, also while their components are disabled."""
        return list(self._known)

    def add_listener(self, listener: ElmoListener, component_name: str) -> None:
        """Hand out to this listener from now on."""
        listeners = self.listener_map.setdefault(component_name, [])
        if listener not in listeners:
            listeners.append(listener)
        self.know(listener, component_name)

    def know(self, listener: ElmoListener, component_name: str) -> None:
        """Count on a listener that spaCy has not linked yet."""
        self._known.add(listener)
        listener.link(self, component_name)

    def remove_listener(self, listener: ElmoListener, component_name: str) -> bool:
        """Stop handing out to this listener; False if it was not there."""
        if listener not in self.listener_map.get(component_name, []):
            return False
        self.listener_map[component_name].remove(listener)
        if not self.listener_map[component_name]:
            del self.listener_map[component_name]
        self._known.discard(listener)
        listener.unlink()
        return True

    def check_listeners(self) -> None:
        """Raise a ValueError unless the layers are of the sizes that this pipeline's listeners expect."""
        for listener in self.listeners:
            if listener.upstream is self:  # with "*" a nearer component may have been linked since
                listener.check_sizes(self.model)

    def find_listeners(self, component: Any) -> None:
        """Add every listener in another component's model that names this one, or any.

        Raises:
            ValueError: a listener stands where one vector a token is expected.
        """
        model = getattr(component, "model", None)
        if not isinstance(model, Model):
            return
        for node in model.walk():
            if isinstance(node, ElmoListener) and node.upstream_name in (ANY, self.name):
                if model.has_ref("tok2vec") is True and model.get_ref("tok2vec") is node:
                    raise ValueError(_unmixed(component.name))
                self.add_listener(node, component.name)

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Hand the layers of a batch out to the listeners; learn from what they send back unless frozen.

        Args:
            examples: the batch.
            drop: not read; the biLM has no dropout here, mixes have their own.
            sgd: the optimizer of a biLM that learns.
            losses: a biLM that learns adds the squared norm of its gradients here, as spaCy's `tok2vec` does.
        """
        losses = {} if losses is None else losses
        validate_examples(examples, "ElmoComponent.update")
        docs = [example.predicted for example in examples]
        if self.fine_tuning is not None:
            losses.setdefault(self.name, 0.0)
        if not self.known_listeners or not any(len(doc) for doc in docs):
            return losses
        if self.fine_tuning is None:
            handed = [HandedLayers(layers) for layers in self.layers_of(docs)]
        else:

            def record(squared_norm: float) -> None:
                losses[self.name] += squared_norm

            handed = self.fine_tuning.read(self.shim, docs, listeners=self.known_listeners, record=record)
        for doc, one in zip(docs, handed, strict=True):
            hand_out(doc, self.name, one)
        if sgd is not None:
            self.finish_update(sgd)
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """Let the biLM take a step, unless it is frozen."""
        if self.fine_tuning is not None:
            self.fine_tuning.finish_update(self.shim, sgd)

    def use_params(self, params: dict[tuple[int, str], FloatsXd]) -> Iterator[None]:
        """Exchange the biLM's parameters for an optimizer's averages, for as long as spaCy does not go on."""
        with self.model.use_params(params):
            yield


def _unmixed(component_name: str) -> str:
    return (
        f"component {component_name!r}: got spacy_elmo.ElmoListener.v1 as its tok2vec, which gives every layer; "
        'expected one vector a token: let the listener be the `source` of "spacy_elmo.MixedElmo.v1", or of '
        '"spacy_elmo.ElmoTok2Vec.v1".'
    )
