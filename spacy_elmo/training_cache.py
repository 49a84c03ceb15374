"""`spacy_elmo.set_cache.v1`: a cache of the biLM's layers for as long as a pipeline is trained.

spaCy initialises no component that `frozen_components` names or that is sourced, so that nothing of
`[initialize.components]` reaches it; `[initialize.before_init]` does.
"""

from collections.abc import Callable

from spacy.language import Language

from spacy_elmo.component import ElmoComponent


def set_cache(
    cache_size: int | None = None,
    cache_dir: str | None = None,
    cache_dir_size: int | None = None,
    store_dtype: str | None = None,
) -> Callable[[Language], None]:
    """Change the cache's options in every component `elmo` whose biLM is frozen; the saved pipeline keeps its own.

    Args:
        cache_size: as the component's, and as the next; None keeps what it has.
        cache_dir: as the component's.
        cache_dir_size: as the component's.
        store_dtype: as the component's.
    """

    def set_in(nlp: Language) -> None:
        components = [one for _, one in nlp.components if isinstance(one, ElmoComponent)]  # disabled ones too
        frozen = [one for one in components if one.fine_tuning is None]
        if not frozen:
            raise ValueError(
                f"spacy_elmo.set_cache.v1: got a pipeline of {', '.join(nlp.component_names) or 'no components'}; "
                "expected a component elmo whose biLM is frozen. Remove the block [initialize.before_init], or set "
                "frozen = true: the layers of a biLM that is trained change at every step."
            )
        for one in frozen:
            one.set_cache(
                cache_size=cache_size, cache_dir=cache_dir, cache_dir_size=cache_dir_size, store_dtype=store_dtype
            )

    return set_in
