"""ELMo for spaCy: `nlp.add_pipe("elmo")` gives every token a vector that depends on its sentence.

Importing this package imports nothing else: spaCy loads its entry points for every pipeline, also for those
without ELMo.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spacy_elmo.vectors import restore_hooks

__all__ = ["restore_hooks"]


def __getattr__(name: str) -> Any:
    if name == "restore_hooks":
        from spacy_elmo.vectors import restore_hooks

        return restore_hooks
    if name == "__version__":
        from hf_elmo.version import __version__

        return __version__
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
