import numpy as np
import pytest
import torch

from hf_elmo.allennlp import ScalarMix
from tests.hf_elmo.allennlp.original import assert_close
from tests.oracles import numpy_elmo

LENGTHS = (4, 2, 1)


def _batch() -> tuple[list[torch.Tensor], torch.Tensor, list[np.ndarray]]:
    """3 layers (3, 4, 6), their mask, and per sentence the layers without padding (3, n, 6)."""
    layers = np.random.default_rng(0).normal(1, 2, size=(3, 3, 4, 6))  # layer, sentence, word
    mask = np.arange(4) < np.array(LENGTHS)[:, None]
    return (
        list(torch.from_numpy(layers)),
        torch.from_numpy(mask),
        [layers[:, row, :length] for row, length in enumerate(LENGTHS)],
    )


def test_the_mix_equals_the_oracle() -> None:
    layers, mask, sentences = _batch()
    mix = ScalarMix(3, initial_scalar_parameters=[0.5, -1, 2]).double()
    torch.nn.init.constant_(mix.gamma, 1.5)
    mixed = mix(layers, mask)
    for row, sentence in enumerate(sentences):
        assert_close(mixed[row, : sentence.shape[1]], numpy_elmo.scalar_mix(sentence, [0.5, -1, 2], 1.5), 1e-12)


def test_the_layer_norm_equals_the_oracle_and_shifts_the_padding_as_the_reference_does() -> None:
    layers, mask, sentences = _batch()
    layers = [layer * mask.unsqueeze(-1) for layer in layers]
    mix = ScalarMix(3, do_layer_norm=True, initial_scalar_parameters=[0, 1, 0]).double()
    mixed = mix(layers, mask)
    normed = numpy_elmo.normalise_batch(sentences, eps=1e-13)
    for row, sentence in enumerate(normed):
        assert_close(mixed[row, : sentence.shape[1]], numpy_elmo.scalar_mix(sentence, [0, 1, 0]), 1e-12)
    words = np.concatenate([sentence.reshape(3, -1) for sentence in sentences], axis=1)  # (3, elements)
    shares = np.exp([0, 1, 0]) / np.exp([0, 1, 0]).sum()
    padding = np.sum(shares * -words.mean(axis=1) / words.std(axis=1))
    assert_close(mixed[~mask], np.full(mixed[~mask].shape, padding), 1e-12)


def test_its_parameters_have_the_references_names_and_shapes() -> None:
    shapes = {name: tuple(value.shape) for name, value in ScalarMix(3).state_dict().items()}
    assert shapes == {"gamma": (1,), **{f"scalar_parameters.{k}": (1,) for k in range(3)}}


def test_half_precision() -> None:
    layers, mask, _ = _batch()
    mixed = ScalarMix(3, do_layer_norm=True).half()([layer.half() for layer in layers], mask)
    exact = ScalarMix(3, do_layer_norm=True).double()(layers, mask)
    assert mixed.dtype == torch.float16
    assert_close(mixed.double()[mask], exact[mask].detach().numpy(), 1e-2)


def test_fixed_weights_are_not_trained() -> None:
    assert not any(parameter.requires_grad for parameter in ScalarMix(3, trainable=False).parameters())


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="got 2 values"):
        ScalarMix(3, initial_scalar_parameters=[0, 1])
    with pytest.raises(ValueError, match="got 1; expected 3"):
        ScalarMix(3)([torch.zeros(1, 1, 2)])
    with pytest.raises(ValueError, match="mask: got None"):
        ScalarMix(1, do_layer_norm=True)([torch.zeros(1, 1, 2)])
