import numpy as np
import pytest
import torch

from hf_elmo.scalar_mix import ScalarMix
from tests.hf_elmo.models import tiny_config
from tests.oracles import numpy_elmo

LAYERS = [torch.randn(2, 5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(k)) for k in range(3)]
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]).bool()
SENTENCES = [torch.stack(LAYERS)[:, row, MASK[row]].numpy() for row in range(2)]  # (L + 1, n, W) each


def _mix(scalars: list[float], gamma: float, **options: object) -> ScalarMix:
    mix = ScalarMix(tiny_config(**options)).double()
    with torch.no_grad():
        mix.weights.copy_(torch.tensor(scalars))
        mix.gamma.fill_(gamma)
    return mix


def _check(mix: ScalarMix, expected: list[np.ndarray]) -> None:
    with torch.no_grad():
        mixed = mix(LAYERS, MASK)
    for row, wanted in enumerate(expected):
        np.testing.assert_allclose(mixed[row, MASK[row]], wanted, rtol=0, atol=1e-12)
    assert not mixed[~MASK].any()


def test_untrained_it_is_the_average() -> None:
    _check(_mix([0.0, 0.0, 0.0], 1.0), [layers.mean(axis=0) for layers in SENTENCES])


def test_weights_and_gamma() -> None:
    scalars = [0.5, -1.0, 2.0]
    _check(_mix(scalars, 1.5), [numpy_elmo.scalar_mix(layers, scalars, 1.5) for layers in SENTENCES])


def test_some_layers_only() -> None:
    expected = [numpy_elmo.scalar_mix(layers[[0, 2]], [0.5, -1.0]) for layers in SENTENCES]
    _check(_mix([0.5, -1.0], 1.0, mix_layers=[0, 2]), expected)


def test_layer_norm_by_token() -> None:
    scalars = [0.5, -1.0, 2.0]
    normalised = [numpy_elmo.normalise_tokens(layers) for layers in SENTENCES]
    expected = [numpy_elmo.scalar_mix(layers, scalars) for layers in normalised]
    _check(_mix(scalars, 1.0, mix_layer_norm="token"), expected)


def test_layer_norm_by_batch_as_in_the_reference() -> None:
    scalars = [0.5, -1.0, 2.0]
    expected = [numpy_elmo.scalar_mix(layers, scalars) for layers in numpy_elmo.normalise_batch(SENTENCES)]
    _check(_mix(scalars, 1.0, mix_layer_norm="batch"), expected)


def test_the_penalty_is_lambda_times_the_squared_weights() -> None:
    mix = _mix([1.0, -2.0, 0.5], 3.0, mix_l2=0.1)
    assert mix.penalty().item() == pytest.approx(0.1 * (1 + 4 + 0.25))


@pytest.mark.parametrize("trainable", [True, False])
def test_trainable_or_fixed(trainable: bool) -> None:
    mix = _mix([0.0, 0.0, 0.0], 1.0, mix_trainable=trainable)
    assert [parameter.requires_grad for parameter in mix.parameters()] == [trainable, trainable]
