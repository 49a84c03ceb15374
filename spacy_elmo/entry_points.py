"""The factory `elmo`.  spaCy imports this module for every pipeline: neither torch nor transformers here."""

from typing import TYPE_CHECKING, Any

from spacy.language import Language

if TYPE_CHECKING:
    from spacy_elmo.component import ElmoComponent

DEFAULT_CONFIG: dict[str, Any] = {
    "model": None,
    "revision": None,
    "all_layers": False,
    "max_words_per_batch": 4096,
    "precision": "fp32",
    "set_vectors": True,
}


@Language.factory(
    "elmo",
    default_config=DEFAULT_CONFIG,
    assigns=["doc._.elmo", "doc._.elmo_layers", "span._.elmo_vector", "token._.elmo_vector", "token.vector"],
)
def make_elmo(
    *,
    nlp: Language,
    name: str,
    model: str | None,
    revision: str | None,
    all_layers: bool,
    max_words_per_batch: int,
    precision: str,
    set_vectors: bool,
) -> "ElmoComponent":
    """Build the component `elmo`, with the options of [`ElmoComponent`][spacy_elmo.component.ElmoComponent].

    The option for the weights is called `model`, not `name`: spaCy keeps `name` for the component's own name
    and drops it from the configuration it saves.
    """
    from spacy_elmo.component import ElmoComponent

    return ElmoComponent(
        name=name,
        model=model,
        revision=revision,
        all_layers=all_layers,
        max_words_per_batch=max_words_per_batch,
        precision=precision,
        set_vectors=set_vectors,
    )
