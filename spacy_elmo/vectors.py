"""ELMo's vectors on spaCy's objects: the extension attributes under `._.` and the hooks behind `.vector`.

Importing this module registers the attributes:

| attribute | content |
| --- | --- |
| `doc._.elmo` | (tokens, width), the mixed vector of each token; None before the component ran |
| `doc._.elmo_layers` | (tokens, layers, width), token layer first; None unless `all_layers` was asked for |
| `span._.elmo`, `span._.elmo_layers` | the span's rows of these |
| `token._.elmo_layers` | (layers, width) |
| `doc._.elmo_vector`, `span._.elmo_vector` | (width,), the mean over the tokens that are not whitespace |
| `token._.elmo_vector` | (width,) |

The hooks are functions of this module, so that a doc that carries them can be pickled.  They read
`doc._.elmo` each time; a doc with hooks but no data behaves as without ELMo.  `span.as_doc()` makes such a
doc; `span_doc._.elmo = span._.elmo` gives it the span's rows.
"""

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from spacy.errors import Warnings
from spacy.tokens import Doc, Span, Token

FloatArray = npt.NDArray[np.float32]

_MIXED, _LAYERS = "elmo", "elmo_layers"


def restore_hooks(doc: Doc) -> Doc:
    """Make `vector`, `has_vector` and `similarity` of a doc, its spans and tokens read `doc._.elmo` again.

    spaCy drops hooks in `doc.to_bytes()`, in `DocBin` and in `nlp.pipe(..., n_process=2)`; the vectors
    themselves survive there (in `DocBin` with `store_user_data=True`).

    Returns:
        the same doc

    Raises:
        ValueError: the doc holds no ELMo vectors, or not one for each token.
    """
    if _stored(doc, _MIXED) is None:
        raise ValueError(
            f"restore_hooks: got a doc of {len(doc)} tokens without ELMo vectors; expected doc._.elmo to be "
            'set. Run a pipeline with the component "elmo" on it, or save it with its user data '
            "(DocBin(store_user_data=True), and no exclude=['user_data'])."
        )
    set_hooks(doc)
    return doc


def set_hooks(doc: Doc) -> None:
    """Put the hooks on a doc, in place of any that are there."""
    doc.user_hooks.update(
        vector=_doc_vector, vector_norm=_vector_norm, has_vector=_doc_has_vector, similarity=_similarity
    )
    # No "vector_norm" for spans: spaCy 3.8 calls the hook "vector" where it finds one.
    doc.user_span_hooks.update(vector=_span_vector, has_vector=_span_has_vector, similarity=_similarity)
    doc.user_token_hooks.update(
        vector=_token_vector, vector_norm=_vector_norm, has_vector=_token_has_vector, similarity=_similarity
    )


def _stored(doc: Doc, name: str) -> FloatArray | None:
    """The doc's array of that name, checked to have one row for each token."""
    user_data: dict[Any, Any] = doc.user_data
    array: FloatArray | None = user_data.get(("._.", name, None, None))
    if array is not None and len(array) != len(doc):
        raise ValueError(
            f"doc._.{name}: got {len(array)} rows for a doc of {len(doc)} tokens; expected one row a "
            'token. The tokens were merged or split after the component "elmo" had run: put "elmo" behind '
            'what does it, or call it again on this doc, nlp.get_pipe("elmo")(doc).'
        )
    return array


def _mean_of_words(vectors: FloatArray, tokens: Iterable[Token]) -> FloatArray:
    """(tokens of the doc, width) → (width,): the mean over those of `tokens` that are words, or zeros."""
    rows = [token.i for token in tokens if not token.is_space]
    if not rows:
        return np.zeros(vectors.shape[-1], dtype=np.float32)
    mean: FloatArray = vectors[rows].mean(axis=0)
    return mean


# Getters of the extension attributes


def _get_mean(tokens: Doc | Span) -> FloatArray | None:
    vectors = _stored(tokens.doc, _MIXED)
    return None if vectors is None else _mean_of_words(vectors, tokens)


def _get_span_rows(span: Span) -> FloatArray | None:
    vectors = _stored(span.doc, _MIXED)
    return None if vectors is None else vectors[span.start : span.end]


def _get_span_layers(span: Span) -> FloatArray | None:
    layers = _stored(span.doc, _LAYERS)
    return None if layers is None else layers[span.start : span.end]


def _get_token_row(token: Token) -> FloatArray | None:
    vectors = _stored(token.doc, _MIXED)
    return None if vectors is None else vectors[token.i]


def _get_token_layers(token: Token) -> FloatArray | None:
    layers = _stored(token.doc, _LAYERS)
    return None if layers is None else layers[token.i]


# Hooks


def _token_vector(token: Token) -> Any:
    vectors = _stored(token.doc, _MIXED)
    return token.vocab.get_vector(token.orth) if vectors is None else vectors[token.i]


def _token_has_vector(token: Token) -> bool:
    if _stored(token.doc, _MIXED) is None:
        return bool(token.vocab.has_vector(token.orth))
    return not token.is_space


def _span_vector(span: Span) -> Any:
    mean = _get_mean(span)
    return _static_mean(span) if mean is None else mean


def _span_has_vector(span: Span) -> bool:
    return any(_token_has_vector(token) for token in span)


def _doc_vector(doc: Doc) -> Any:
    mean = _get_mean(doc)
    if mean is not None:
        return mean
    left_by_as_doc = doc._vector  # type: ignore[attr-defined]
    return _static_mean(doc) if left_by_as_doc is None else left_by_as_doc


def _doc_has_vector(doc: Doc) -> bool:
    return any(_token_has_vector(token) for token in doc) or bool(np.any(_doc_vector(doc)))


def _static_mean(tokens: Doc | Span) -> Any:
    """What spaCy itself gives for tokens that have static vectors, or none."""
    if not len(tokens):
        return np.zeros(tokens.vocab.vectors_length, dtype=np.float32)
    return sum(token.vocab.get_vector(token.orth) for token in tokens) / len(tokens)


def _vector_norm(tokens: Doc | Token) -> float:
    # A hook, because spaCy's Doc remembers the norm of the first vector it was asked for.
    return float(np.linalg.norm(_as_numpy(tokens.vector)))


def _similarity(one: Any, other: Any) -> float:
    """Cosine of the two vectors, also for equal words: spaCy would answer 1.0 for them without looking.

    `other` is a Doc, Span, Token or Lexeme.  0.0, with spaCy's warning W008, where either has no vector.
    """
    a, b = _as_numpy(one.vector), _as_numpy(other.vector)
    norms = float(np.linalg.norm(a)) * float(np.linalg.norm(b))
    if norms == 0.0:
        if not one.has_vector or not other.has_vector:
            warnings.warn(Warnings.W008.format(obj=type(one).__name__), stacklevel=2)
        return 0.0
    if a.shape != b.shape:
        raise ValueError(
            f"similarity: got a vector of width {a.size} and one of width {b.size}; expected two vectors of "
            'one model. Compare docs of the same component "elmo"; a lexeme has a static vector only.'
        )
    return min(1.0, max(-1.0, float(a @ b) / norms))


def _as_numpy(vector: Any) -> npt.NDArray[np.float64]:
    """Float64 on the CPU; a static vector is a cupy array where spaCy runs on a GPU."""
    return np.asarray(vector.get() if hasattr(vector, "get") else vector, dtype=np.float64)


def _register(kind: Any, name: str, **content: Any) -> None:
    """Register an attribute once; spaCy raises E090 where another package took the name."""
    if not kind.has_extension(name) or kind.get_extension(name) != (None, None, content.get("getter"), None):
        kind.set_extension(name, **content)


_register(Doc, _MIXED, default=None)
_register(Doc, _LAYERS, default=None)
_register(Doc, "elmo_vector", getter=_get_mean)
_register(Span, _MIXED, getter=_get_span_rows)
_register(Span, _LAYERS, getter=_get_span_layers)
_register(Span, "elmo_vector", getter=_get_mean)
_register(Token, "elmo_vector", getter=_get_token_row)
_register(Token, _LAYERS, getter=_get_token_layers)
