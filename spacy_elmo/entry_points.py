"""The factory `elmo`, and an encoder.

spaCy imports this module for every pipeline: neither torch nor transformers here.
"""

from typing import TYPE_CHECKING, Any

from spacy.language import Language
from thinc.api import Model

if TYPE_CHECKING:
    from spacy_elmo.component import ElmoComponent

DEFAULT_CONFIG: dict[str, Any] = {
    "model": {"@architectures": "spacy_elmo.ElmoModel.v1"},
    "revision": None,
    "all_layers": False,
    "max_words_per_batch": None,
    "precision": None,
    "set_vectors": True,
    "frozen": True,
    "learning_rate_factor": 1.0,
    "unfreeze_after": None,
    "device": None,
    "cache_size": None,
    "cache_dir": None,
    "cache_dir_size": None,
    "store_dtype": None,
    "save_weights": None,
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
    model: Model | str | None,
    revision: str | None,
    all_layers: bool,
    max_words_per_batch: int | None,
    precision: str | None,
    set_vectors: bool,
    frozen: bool,
    learning_rate_factor: float,
    unfreeze_after: list[int] | None,
    device: str | None,
    cache_size: int | None,
    cache_dir: str | None,
    cache_dir_size: int | None,
    store_dtype: str | None,
    save_weights: bool | None,
) -> "ElmoComponent":
    """Build the component `elmo`, with the options of [`ElmoComponent`][spacy_elmo.component.ElmoComponent].

    `model` is a block with `@architectures = "spacy_elmo.ElmoModel.v1"`, or in short a folder or Hub id.  It is not
    called `name`: spaCy keeps that for the component's own name and drops it from the configuration it saves.
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
        frozen=frozen,
        learning_rate_factor=learning_rate_factor,
        unfreeze_after=unfreeze_after,
        device=device,
        cache_size=cache_size,
        cache_dir=cache_dir,
        cache_dir_size=cache_dir_size,
        store_dtype=store_dtype,
        save_weights=save_weights,
    )
