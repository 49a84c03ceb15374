"""`spacy_elmo.ElmoTok2Vec.v1`: ELMo next to other features (Peters et al. 2018, section 3.3)."""

from collections.abc import Callable
from typing import Any

from spacy.tokens import Doc
from thinc.api import Maxout, Model, get_array_module, get_width, with_array
from thinc.types import Floats2d, Floats3d

Docs = list[Doc]
Vectors = list[Floats2d]
Mix = Model[list[Floats3d], Vectors]

_PIECES = 3  # as in spaCy's MultiHashEmbed


def build_elmo_tok2vec(
    source: Model[Docs, list[Floats3d]],
    embed: Model[Docs, Vectors],
    input_mix: Mix,
    encode: Model[Vectors, Vectors],
    output_mix: Mix | None = None,
) -> Model[Docs, Vectors]:
    """The paper's recipe: [x; ELMo] into the encoder, and, if there is an `output_mix`, [h; ELMo'] out of it.

    An encoder whose width is that of [x; ELMo] reads it as it is.  Otherwise a maxout layer with layer normalisation
    brings it to the encoder's width, as in spaCy's `MultiHashEmbed`: a wide encoder is slow on a CPU.

    Args:
        source: `ElmoListener.v1`, or `ElmoModel.v1` for a biLM of the component's own.
        embed: x, such as `spacy.MultiHashEmbed.v2`.
        input_mix: `ScalarMix.v1`, before the encoder.
        encode: such as `spacy.MaxoutWindowEncoder.v2` or `spacy_elmo.BiLSTMEncoder.v1`.
        output_mix: another `ScalarMix.v1`, after the encoder.

    Shape:
        per doc (tokens, encoder's width), plus the biLM's width with an `output_mix`
    """
    layers: list[Model] = [
        source,
        embed,
        input_mix,
        _fit_width(encode),
        encode,
        *([] if output_mix is None else [output_mix]),
    ]
    return Model(
        "elmo_tok2vec",
        forward,
        init=init,
        layers=layers,
        dims={"nO": _output_width(source, encode, output_mix)},
        refs={"source": source, "embed": embed, "input_mix": input_mix, "encode": encode, "output_mix": output_mix},
    )


def forward(model: Model[Docs, Vectors], docs: Docs, is_train: bool) -> tuple[Vectors, Callable[[Vectors], Any]]:
    """[x; ELMo] → h → h or [h; ELMo']."""
    # Not by references: a copied model has none.
    source, embed, input_mix, fit, encode, *output_mix = model.layers
    layers, back_to_docs = source(docs, is_train)
    features, back_to_words = embed(docs, is_train)
    mixed, back_to_layers = input_mix(layers, is_train)
    fitted, back_to_joined = fit(_join(features, mixed), is_train)
    hidden, back_to_fitted = encode(fitted, is_train)
    if not output_mix:
        output = hidden
    else:
        mixed_again, back_to_layers_again = output_mix[0](layers, is_train)
        output = _join(hidden, mixed_again)

    def backprop(d_output: Vectors) -> Any:
        d_hidden, d_mixed_again = _split(d_output, hidden) if output_mix else (d_output, [])
        d_features, d_mixed = _split(back_to_joined(back_to_fitted(d_hidden)), features)
        d_layers = back_to_layers(d_mixed)
        if output_mix:
            d_layers = [one + other for one, other in zip(d_layers, back_to_layers_again(d_mixed_again), strict=True)]
        back_to_words(d_features)
        return back_to_docs(d_layers)

    return output, backprop


def init(model: Model[Docs, Vectors], X: Docs | None = None, Y: Vectors | None = None) -> None:
    """Infer every width from sample docs: that of x is often known only now."""
    source, embed, input_mix, fit, encode, *output_mix = model.layers
    source.initialize(X=X)
    embed.initialize(X=X)
    if X is None:
        return
    layers = source.predict(X)
    for mix in (input_mix, *output_mix):
        mix.initialize(X=layers)
    joined = _join(embed.predict(X), input_mix.predict(layers))
    fit.initialize(X=joined)
    encode.initialize(X=fit.predict(joined))
    model.set_dim("nO", get_width(model.predict(X)))


def _output_width(source: Model, encode: Model, output_mix: Model | None) -> int | None:
    """What those who come after read before anything is initialised; None where it is not known yet."""
    hidden, elmo = encode.maybe_get_dim("nO"), source.maybe_get_dim("nO")
    if output_mix is None:
        return hidden
    return None if hidden is None or elmo is None else hidden + elmo


def _fit_width(encode: Model[Vectors, Vectors]) -> Model[Vectors, Vectors]:
    """A maxout layer to the encoder's width, that does nothing where its input has this width or any will do."""
    width = encode.maybe_get_dim("nI") or encode.maybe_get_dim("nO")  # spaCy's encoders often state nO only
    maxout: Model[Vectors, Vectors] = with_array(Maxout(nO=width, nP=_PIECES, normalize=True, dropout=0.0))
    return Model("fit_width", _fit_forward, init=_fit_init, layers=[maxout], dims={"nI": None, "nO": width})


def _fit_forward(
    model: Model[Vectors, Vectors], X: Vectors, is_train: bool
) -> tuple[Vectors, Callable[[Vectors], Vectors]]:
    return (X, _unchanged) if _fits(model) else model.layers[0](X, is_train)


def _fit_init(model: Model[Vectors, Vectors], X: Vectors | None = None, Y: Vectors | None = None) -> None:
    if X is not None:
        model.set_dim("nI", get_width(X))
        if not _fits(model):
            model.layers[0].initialize(X=X)


def _fits(model: Model[Vectors, Vectors]) -> bool:
    return model.maybe_get_dim("nO") in (None, model.get_dim("nI"))


def _unchanged(d_output: Vectors) -> Vectors:
    return d_output


def _join(left: Vectors, right: Vectors) -> Vectors:
    """Per doc (tokens, a) and (tokens, b) → (tokens, a + b)."""
    return [get_array_module(one).hstack((one, other)) for one, other in zip(left, right, strict=True)]


def _split(joined: Vectors, left: Vectors) -> tuple[Vectors, Vectors]:
    """The gradients of the two that `_join` joined."""
    ends = [one.shape[1] for one in left]
    cut = [(both[:, :end], both[:, end:]) for both, end in zip(joined, ends, strict=True)]
    return [_contiguous(one) for one, _ in cut], [_contiguous(other) for _, other in cut]


def _contiguous(array: Floats2d) -> Floats2d:
    contiguous: Floats2d = get_array_module(array).ascontiguousarray(array)
    return contiguous
