"""`spacy_elmo.MixedElmo.v1`: docs in, one mixed vector per token out."""

from spacy.tokens import Doc
from thinc.api import Model, chain
from thinc.types import Floats2d, Floats3d


def build_mixed_elmo(
    source: Model[list[Doc], list[Floats3d]], mix: Model[list[Floats3d], list[Floats2d]]
) -> Model[list[Doc], list[Floats2d]]:
    """ELMo alone as a component's `tok2vec`, or as the `embed` of `spacy.Tok2Vec.v2`.

    Args:
        source: `ElmoListener.v1`, or `ElmoModel.v1` for a biLM of the component's own.
        mix: `ScalarMix.v1`.

    Shape:
        per doc (tokens, width)
    """
    model: Model[list[Doc], list[Floats2d]] = chain(source, mix)
    width = source.maybe_get_dim("nO")
    if width is not None:  # those who come after read it before anything is initialised
        model.set_dim("nO", width)
    return model
