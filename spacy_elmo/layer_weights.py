"""What the components of a pipeline have learnt of ELMo's layers."""

from collections.abc import Iterator

from spacy.language import Language
from thinc.api import Model

from spacy_elmo.component import ElmoComponent
from spacy_elmo.scalar_mix import mix_weights, scalar_mixes

Weights = tuple[list[float | None], float]


def learnt_layer_weights(nlp: Language) -> dict[str, Weights]:
    """Per task the share of each layer and γ, as `hf_elmo.layer_weights.show_layer_weights` takes them.

    A component with several mixes is there several times, such as `ner: input` and `ner: output`.  The mix of the
    component `elmo` itself is that of `doc._.elmo`.
    """
    tasks: dict[str, Weights] = {}
    for name, component in nlp.components:
        if isinstance(component, ElmoComponent):
            tasks[f"{name}: doc._.elmo"] = _own_mix(component)
        else:
            model = getattr(component, "model", None)
            if isinstance(model, Model):
                tasks.update(_mixes(name, model))
    return tasks


def _own_mix(component: ElmoComponent) -> Weights:
    mix = component.bilm.scalar_mix
    assert mix is not None
    shares = mix.weights.detach().float().softmax(dim=0).tolist()
    return _spread(shares, mix.layers, component.bilm.config.num_hidden_layers + 1), mix.gamma.item()


def _mixes(name: str, model: Model) -> Iterator[tuple[str, Weights]]:
    mixes = [mix for mix in scalar_mixes(model) if mix.has_param("W")]
    places = _places(model)
    depth = next((node.get_dim("nL") for node in model.walk() if node.has_dim("nL")), 0)
    for number, mix in enumerate(mixes, start=1):
        place = places.get(mix.id, str(number) if len(mixes) > 1 else "")
        shares = [float(share) for share in mix_weights(mix)]
        layers = mix.attrs["layers"] if mix.attrs["layers"] is not None else list(range(len(shares)))
        weights = _spread(shares, layers, max(depth, *(layer + 1 for layer in layers)))
        yield f"{name}: {place}" if place else name, (weights, float(mix.get_param("gamma")[0]))


def _places(model: Model) -> dict[int, str]:
    """Which mixes stand before and after an encoder, by id."""
    places = {}
    for node in model.walk():
        if node.name == "elmo_tok2vec":
            _, _, input_mix, _, _, *output_mix = node.layers
            if output_mix:
                places.update({input_mix.id: "input", output_mix[0].id: "output"})
    return places


def _spread(shares: list[float], layers: list[int], depth: int) -> list[float | None]:
    """The shares at their layers' places; None where a layer is not mixed."""
    spread: list[float | None] = [None] * depth
    for share, layer in zip(shares, layers, strict=True):
        spread[layer] = share
    return spread
