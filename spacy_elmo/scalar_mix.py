r"""`spacy_elmo.ScalarMix.v1`: the task-specific mix of the biLM's layers (Peters et al. 2018, equation 1).

In native thinc, so that an optimizer's averages reach its parameters, which they do not inside a torch module.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from thinc.api import Model
from thinc.types import Floats1d, Floats2d, Floats3d

InT = list[Floats3d]
OutT = list[Floats2d]

_NAME = "scalar_mix"


def build_scalar_mix(
    layers: list[int] | None = None,
    dropout: float = 0.2,
    layer_norm: bool = False,
    layer_norm_eps: float = 1e-12,
    l2: float = 0.0,
    trainable: bool = True,
) -> Model[InT, OutT]:
    r"""\(\mathrm{ELMo} = γ \sum_k s_k h_k\) with \(s = \mathrm{softmax}(w)\); w starts at 0, γ at 1.

    Args:
        layers: the layers that are mixed (0 = token layer), or None for all.
        dropout: probability, on the mixed vector.  spaCy's own `[training] dropout` does not change it.  The
            reference's 0.5 suits wide layers and long training.
        layer_norm: normalise every token of every layer by its own mean and variance first.
        layer_norm_eps: added to the variance.
        l2: λ of the paper's penalty λ‖w‖² (section 3.3), whose gradient 2λw is added at each update.
        trainable: False keeps the plain average.

    Shape:
        per doc (tokens, layers, width) → (tokens, width)
    """
    if layers is not None and (not layers or len(set(layers)) != len(layers) or min(layers) < 0):
        raise ValueError(f"layers: got {layers}; expected distinct layers, 0 for the token layer, or null for all.")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout: got {dropout}; expected a number from 0 to below 1.")
    if not (l2 >= 0 and layer_norm_eps > 0):
        raise ValueError(f"got l2 = {l2} and layer_norm_eps = {layer_norm_eps}; expected l2 ≥ 0, layer_norm_eps > 0.")
    return Model(
        _NAME,
        forward,
        init=init,
        params={"W": None, "gamma": None},
        dims={"nI": None, "nO": None},
        # Not "dropout_rate": spaCy sets that of every layer to its own.
        attrs={
            "layers": layers,
            "dropout": dropout,
            "layer_norm": layer_norm,
            "layer_norm_eps": layer_norm_eps,
            "l2": l2,
            "trainable": trainable,
        },
    )


def scalar_mixes(model: Model) -> list[Model[InT, OutT]]:
    """Every scalar mix in a model, such as that of a component."""
    return [node for node in model.walk() if node.name == _NAME]


def mix_weights(mix: Model[InT, OutT]) -> Floats1d:
    """The share of each of the mixed layers, softmax(w); they sum to 1.

    Raises:
        ValueError: another layer, or a mix that is not initialised yet.
    """
    if mix.name != _NAME or not mix.has_param("W"):
        state = "not initialised yet" if mix.name == _NAME else "another layer; scalar_mixes(model) finds the mixes"
        raise ValueError(f'mix_weights: got the layer "{mix.name}", {state}; expected an initialised {_NAME}.')
    return cast(Floats1d, _softmax(mix.ops.xp, mix.get_param("W")))


def init(model: Model[InT, OutT], X: InT | None = None, Y: OutT | None = None) -> None:
    """Set w and γ to where they start, for the layers there are; anew each time, as spaCy's own layers do."""
    layers = model.attrs["layers"]
    if X:
        available, width = X[0].shape[1:]
        if layers is not None and max(layers) >= available:
            raise ValueError(f"layers: got {layers}; expected layers from 0 to {available - 1}, the biLM has no more.")
        model.set_dim("nI", width)
        model.set_dim("nO", width)
    elif layers is not None:
        available = len(layers)
    else:
        return
    count = available if layers is None else len(layers)
    model.set_param("W", model.ops.alloc1f(count))
    model.set_param("gamma", model.ops.alloc1f(1) + 1)


def forward(model: Model[InT, OutT], docs: InT, is_train: bool) -> tuple[OutT, Callable[[OutT], InT]]:
    """Mix the layers of all docs at once."""
    if not docs:
        return [], lambda d_mixed: []
    ops: Any = model.ops
    attrs = model.attrs
    lengths = np.array([len(doc) for doc in docs])
    every = ops.xp.concatenate(docs)  # (N, L, W)
    chosen = range(every.shape[1]) if attrs["layers"] is None else attrs["layers"]
    layers = [_Layer(ops.xp, every[:, k], attrs["layer_norm_eps"] if attrs["layer_norm"] else None) for k in chosen]
    shares, gamma = mix_weights(model), model.get_param("gamma")  # (K,), (1,)
    mixed = sum(share * layer.values for share, layer in zip(shares, layers, strict=True))  # (N, W)
    keep = ops.get_dropout_mask(mixed.shape, attrs["dropout"]) if is_train and attrs["dropout"] else 1.0

    def backprop(d_docs: OutT) -> InT:
        d_output = ops.xp.concatenate(d_docs) * keep  # (N, W)
        if attrs["trainable"]:
            d_shares = gamma * ops.xp.stack([(d_output * layer.values).sum() for layer in layers])  # (K,)
            d_weights = shares * (d_shares - (shares * d_shares).sum())
            model.inc_grad("W", d_weights + 2 * attrs["l2"] * model.get_param("W"))
            model.inc_grad("gamma", (d_output * mixed).sum().reshape(1))
        d_every = ops.xp.zeros_like(every)  # (N, L, W)
        for k, share, layer in zip(chosen, shares, layers, strict=True):
            d_every[:, k] = layer.gradient(gamma * share * d_output)
        return ops.unflatten(d_every, lengths)

    return ops.unflatten(gamma * mixed * keep, lengths), backprop


class _Layer:
    """One layer of every token (N, W), each token normalised by its own mean and variance if there is an eps."""

    def __init__(self, xp: Any, layer: Any, eps: float | None) -> None:
        self.inverse_deviation = None
        self.values = layer
        if eps is not None:
            centred = layer - layer.mean(axis=-1, keepdims=True)  # (N, W)
            self.inverse_deviation = 1 / xp.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)  # (N, 1)
            self.values = centred * self.inverse_deviation

    def gradient(self, d_values: Any) -> Any:
        """(N, W) → (N, W), the gradient before the normalisation."""
        if self.inverse_deviation is None:
            return d_values
        along = (d_values * self.values).mean(axis=-1, keepdims=True)  # (N, 1)
        return self.inverse_deviation * (d_values - d_values.mean(axis=-1, keepdims=True) - self.values * along)


def _softmax(xp: Any, weights: Any) -> Any:
    exponentials = xp.exp(weights - weights.max())
    return exponentials / exponentials.sum()
