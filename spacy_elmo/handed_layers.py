"""Layers on their way from the component `elmo` to the listeners: attached to the doc they belong to.

They lie among the doc's hooks.  So they live as long as the doc, `doc.copy()` (of which spaCy makes many while it
trains) keeps them, and nothing saves them with the doc.
"""

from typing import TYPE_CHECKING, Any

from spacy.tokens import Doc

from spacy_elmo.doc_sentences import FloatArray

if TYPE_CHECKING:
    from spacy_elmo.fine_tuning import TrainingBatch

_KEY = "elmo_layers"
ANY = "*"


class HandedLayers:
    """The layers of one doc.

    Attributes:
        layers: (tokens, layers, width)
        batch: where gradients are sent to, or None if the biLM does not learn from this doc.
        index: the doc's place in the batch.
    """

    def __init__(self, layers: FloatArray, batch: "TrainingBatch | None" = None, index: int = 0) -> None:
        self.layers = layers
        self.batch = batch
        self.index = index

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickled doc leaves its layers behind: they are large, and can be computed again."""
        return _left_behind, ()


def _left_behind() -> None:
    return None


def hand_out(doc: Doc, upstream: str, handed: HandedLayers) -> None:
    """Attach layers that the component called `upstream` computed."""
    hooks: dict[str, Any] = doc.user_hooks
    hooks[_KEY] = hooks[f"{_KEY}:{upstream}"] = handed


def handed_to(doc: Doc, upstream: str) -> HandedLayers | None:
    """What the component called `upstream` (with `"*"` the last one) attached to this doc, or None.

    `span.as_doc()` hands the hooks of the whole doc on, and tokens may be merged or split: layers of another length
    are another doc's.
    """
    hooks: dict[str, Any] = doc.user_hooks
    handed: HandedLayers | None = hooks.get(_KEY if upstream == ANY else f"{_KEY}:{upstream}")
    return handed if handed is not None and len(handed.layers) == len(doc) else None
