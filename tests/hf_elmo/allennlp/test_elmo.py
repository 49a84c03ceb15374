"""`Elmo` gives what the reference gives, from the same arguments."""

import copy
import inspect
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo import ElmoModel
from hf_elmo.allennlp import Elmo, ElmoBiLm, batch_to_ids
from hf_elmo.model_source import default_model_path
from tests.hf_elmo.allennlp.original import TOP_LAYER, Original, assert_close, write_original
from tests.hf_elmo.models import WORDS
from tests.oracles import numpy_elmo

BATCH = [WORDS[:7], WORDS[7:9], WORDS[9:]]


def _elmo(original: Original, *args: Any, **kwargs: Any) -> Elmo:
    return Elmo(*original.files, *args, **{"dropout": 0.0, **kwargs})


def _set(mix: torch.nn.Module, scalars: list[float], gamma: float) -> None:
    with torch.no_grad():
        for parameter, value in zip(mix.scalar_parameters, scalars, strict=True):
            parameter.fill_(value)
        mix.gamma.fill_(gamma)


def test_the_arguments_are_the_references_in_its_order() -> None:
    parameters = inspect.signature(Elmo.__init__).parameters
    positional = [name for name, p in parameters.items() if p.kind == p.POSITIONAL_OR_KEYWORD]
    assert positional == [
        "self", "options_file", "weight_file", "num_output_representations", "requires_grad", "do_layer_norm",
        "dropout", "vocab_to_cache", "keep_sentence_boundaries", "scalar_mix_parameters", "module",
    ]  # fmt: skip
    defaults = [parameters[name].default for name in positional[4:]]
    assert defaults == [False, False, 0.5, None, False, None, None]
    assert list(inspect.signature(Elmo.forward).parameters) == ["self", "inputs", "word_inputs"]


def test_several_mixes_of_one_pass(original: Original, monkeypatch: pytest.MonkeyPatch) -> None:
    elmo = _elmo(original, 3)
    settings = [([0, 0, 0], 1.0), ([1, 2, -1], 0.5), ([-3, 0, 3], 2.0)]
    for k, (scalars, gamma) in enumerate(settings):
        _set(getattr(elmo, f"scalar_mix_{k}"), scalars, gamma)
    passes = []
    forward = ElmoModel.forward
    monkeypatch.setattr(ElmoModel, "forward", lambda *args, **kwargs: passes.append(1) or forward(*args, **kwargs))
    output = elmo(batch_to_ids(BATCH))
    assert len(passes) == 1
    assert set(output) == {"elmo_representations", "mask"}
    assert len(output["elmo_representations"]) == 3
    assert output["mask"].dtype == torch.bool
    assert output["mask"].sum(1).tolist() == [len(sentence) for sentence in BATCH]
    for representation, (scalars, gamma) in zip(output["elmo_representations"], settings, strict=True):
        assert representation.shape == (3, 7, 32)
        for row, sentence in enumerate(BATCH):
            assert_close(representation[row, : len(sentence)], original.mix(sentence, scalars, gamma))
            assert not representation[row, len(sentence) :].any()


def test_sentence_boundaries_are_kept_on_request(original: Original) -> None:
    output = _elmo(original, 1, keep_sentence_boundaries=True)(batch_to_ids(BATCH))
    representation = output["elmo_representations"][0]
    expected, _ = original.layers(BATCH, keep_boundaries=True)
    assert representation.shape == (3, 9, 32)
    assert output["mask"].sum(1).tolist() == [len(sentence) + 2 for sentence in BATCH]
    for row, layers in enumerate(expected):
        assert_close(representation[row, : layers.shape[1]], numpy_elmo.scalar_mix(layers, [0, 0, 0]))


def test_layer_norm_is_over_the_batch_with_its_boundaries(original: Original) -> None:
    elmo = _elmo(original, 1, do_layer_norm=True, scalar_mix_parameters=[0, 1, 2])
    representation = elmo(batch_to_ids(BATCH))["elmo_representations"][0]
    layers, _ = original.layers(BATCH, keep_boundaries=True)
    for row, normed in enumerate(numpy_elmo.normalise_batch(layers, eps=1e-13)):
        assert_close(representation[row, : len(BATCH[row])], numpy_elmo.scalar_mix(normed[:, 1:-1], [0, 1, 2]))
        assert not representation[row, len(BATCH[row]) :].any()


def test_fixed_mix_parameters_choose_a_layer_and_are_not_trained(original: Original) -> None:
    elmo = _elmo(original, 2, scalar_mix_parameters=TOP_LAYER)
    assert not any(parameter.requires_grad for parameter in elmo.parameters())
    layers, _ = original.layers(BATCH[:1])
    for representation in elmo(batch_to_ids(BATCH[:1]))["elmo_representations"]:
        assert_close(representation[0], layers[0][2])


def test_more_dimensions_are_restored(original: Original) -> None:
    elmo = _elmo(original, 2)
    ids = batch_to_ids([["a", "b", "c"], ["d"], ["e", "f"], []])
    flat = elmo(ids)
    for keep, words in ((False, 3), (True, 5)):
        elmo._keep_sentence_boundaries = keep
        nested = elmo(ids.reshape(2, 1, 2, 3, 50))
        assert nested["mask"].shape == (2, 1, 2, words)
        assert nested["elmo_representations"][1].shape == (2, 1, 2, words, 32)
        if not keep:
            assert torch.equal(nested["mask"].reshape(4, 3), flat["mask"])
            assert_close(
                nested["elmo_representations"][0].reshape(4, 3, 32),
                flat["elmo_representations"][0].detach().numpy(),
            )


def test_dropout_acts_in_training_mode_only(original: Original) -> None:
    elmo, plain = _elmo(original, 2, dropout=0.5), _elmo(original, 2)
    ids = batch_to_ids([WORDS * 5])
    first, second = (x.detach() for x in elmo(ids)["elmo_representations"])
    expected = plain(ids)["elmo_representations"][0].detach()
    assert 0.4 < (first == 0).float().mean() < 0.6
    assert_close(first[first != 0], 2 * expected[first != 0].numpy())
    assert not torch.equal(first == 0, second == 0)
    elmo.eval()
    assert_close(elmo(ids)["elmo_representations"][0], expected.numpy())


# Training


def _gradients(elmo: Elmo) -> dict[str, torch.Tensor | None]:
    (elmo(batch_to_ids(BATCH))["elmo_representations"][0] ** 2).sum().backward()
    return {name: parameter.grad for name, parameter in elmo.named_parameters()}


def test_the_bilm_is_frozen_and_the_mixes_are_trained(original: Original) -> None:
    gradients = _gradients(_elmo(original, 1))
    for name, gradient in gradients.items():
        if name.startswith("scalar_mix_0"):
            assert gradient.abs().sum() > 0
        else:
            assert gradient is None, name
    assert sum(name.startswith("scalar_mix_") for name in gradients) == 4


def test_the_bilm_is_trained_on_request(original: Original) -> None:
    gradients = _gradients(_elmo(original, 1, requires_grad=True))
    assert all(gradient is not None and gradient.abs().sum() > 0 for gradient in gradients.values())


def test_parameters_thawed_by_hand_are_trained(original: Original) -> None:
    elmo = _elmo(original, 1)
    elmo._elmo_lstm.requires_grad_(True)
    assert all(gradient is not None for gradient in _gradients(elmo).values())


def test_the_gradient_of_the_mix_equals_finite_differences(original: Original) -> None:
    elmo = _elmo(original, 1).double()
    values = np.array([0.3, -0.2, 0.1, 1.3])  # the scalars and gamma
    _set(elmo.scalar_mix_0, values[:3].tolist(), values[3])
    gradients = _gradients(elmo)
    parts = [original.layers([sentence])[0][0] for sentence in BATCH]

    def loss(values: np.ndarray) -> float:
        return sum((numpy_elmo.scalar_mix(layers, values[:3], values[3]) ** 2).sum() for layers in parts)

    names = [*(f"scalar_mix_0.scalar_parameters.{k}" for k in range(3)), "scalar_mix_0.gamma"]
    for name, step in zip(names, 1e-6 * np.eye(4), strict=True):
        expected = (loss(values + step) - loss(values - step)) / 2e-6
        np.testing.assert_allclose(gradients[name].item(), expected, rtol=1e-4)


# One biLM for several; copies; files


def test_a_shared_module(original: Original) -> None:
    bilm = ElmoBiLm(*original.files)
    one, two = Elmo(None, None, 1, module=bilm, dropout=0.0), Elmo(None, None, 2, module=bilm, dropout=0.0)
    assert one._elmo_lstm is two._elmo_lstm
    ids = batch_to_ids(BATCH[:1])
    assert_close(one(ids)["elmo_representations"][0][0], original.mix(BATCH[0]))
    assert one.get_output_dim() == 32


def test_any_module_with_activations_and_mask() -> None:
    class Constant(torch.nn.Module):
        num_layers = 2

        def forward(self, inputs: torch.Tensor, word_inputs: torch.Tensor | None = None) -> dict[str, Any]:
            rows, words = inputs.shape[:2]
            ones = torch.ones(rows, words + 2, 4)
            return {"activations": [ones, 3 * ones], "mask": torch.ones(rows, words + 2, dtype=torch.bool)}

    output = Elmo(None, None, 1, module=Constant(), dropout=0.0)(batch_to_ids([["a", "b"]]))
    assert torch.equal(output["elmo_representations"][0], torch.full((1, 2, 4), 2.0))


def test_a_module_and_files_are_not_given_together(original: Original) -> None:
    with pytest.raises(ValueError, match="module: got a biLM together"):
        Elmo(*original.files, 1, module=ElmoBiLm(*original.files))
    with pytest.raises(ValueError, match="module: got a biLM together"):
        Elmo(None, None, 1, module=ElmoBiLm(*original.files), stateful=True)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda elmo: pickle.loads(pickle.dumps(elmo))])
def test_copies_compute_the_same_and_share_nothing(original: Original, duplicate: Any) -> None:
    elmo = _elmo(original, 2, vocab_to_cache=["", "dog", "bark"], stateful=True)
    ids = batch_to_ids(BATCH)
    elmo(ids)
    twin = duplicate(elmo)
    again = twin(ids)["elmo_representations"][0]
    assert_close(again, elmo(ids)["elmo_representations"][0].detach().numpy(), 0)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    third = elmo(ids)["elmo_representations"][0]
    assert third.abs().sum() > 0


def test_saved_as_a_whole_and_as_a_state_dict(original: Original, tmp_path: Path) -> None:
    elmo = _elmo(original, 2)
    _set(elmo.scalar_mix_1, [1, 2, 3], 4)
    ids = batch_to_ids(BATCH)
    expected = elmo(ids)["elmo_representations"][1].detach().numpy()
    torch.save(elmo, tmp_path / "whole.pt")
    assert_close(torch.load(tmp_path / "whole.pt", weights_only=False)(ids)["elmo_representations"][1], expected, 0)
    torch.save(elmo.state_dict(), tmp_path / "state.pt")
    other = Elmo(*write_original(tmp_path / "other", seed=9).files, 2, dropout=0.0)
    other.load_state_dict(torch.load(tmp_path / "state.pt"))
    assert_close(other(ids)["elmo_representations"][1], expected, 0)


def test_without_arguments_it_is_the_shipped_model() -> None:
    elmo, model = Elmo(dropout=0.0), ElmoModel.from_pretrained(default_model_path())
    ids = torch.from_numpy(numpy_elmo.sentence_to_ids(WORDS[:7])).unsqueeze(0)
    with torch.no_grad():
        expected = model(ids).last_hidden_state[:, 1:-1]
    output = elmo(batch_to_ids([WORDS[:7]]))
    assert_close(output["elmo_representations"][0], expected.numpy())
    assert elmo.get_output_dim() == 256


# Any batch

SHAPES = st.lists(st.lists(st.sampled_from(WORDS), max_size=6), min_size=1, max_size=5)


@given(batch=SHAPES, data=st.data())
def test_a_vector_depends_on_its_sentence_alone(
    original: Original, batch: list[list[str]], data: st.DataObject
) -> None:
    elmo = _cached_elmo(original)
    order = data.draw(st.permutations(range(len(batch))))
    extra = data.draw(st.integers(0, 3))
    ids = torch.nn.functional.pad(batch_to_ids([batch[row] for row in order]), (0, 0, 0, extra))
    output = elmo(ids)
    together = output["elmo_representations"][0]
    assert output["mask"].sum(1).tolist() == [len(batch[row]) for row in order]
    for place, row in enumerate(order):
        alone = elmo(batch_to_ids([batch[row]]))["elmo_representations"][0][0]
        assert_close(together[place, : len(batch[row])], alone.detach().numpy(), 1e-12)
        assert not together[place, len(batch[row]) :].any()


@given(sentence=st.lists(st.sampled_from(WORDS), min_size=1, max_size=5), before=st.integers(0, 3))
def test_padding_may_stand_on_the_left(original: Original, sentence: list[str], before: int) -> None:
    elmo = _cached_elmo(original)
    ids = batch_to_ids([sentence])
    padded = elmo(torch.nn.functional.pad(ids, (0, 0, before, 0)))
    assert padded["mask"].tolist() == [[False] * before + [True] * len(sentence)]
    expected = elmo(ids)["elmo_representations"][0].detach().numpy()
    assert_close(padded["elmo_representations"][0][:, before:], expected, 1e-12)


_ELMOS: dict[Path, Elmo] = {}


def _cached_elmo(original: Original) -> Elmo:
    if original.weight_file not in _ELMOS:
        _ELMOS[original.weight_file] = _elmo(original, 1).double()
    return _ELMOS[original.weight_file]


# Wrong inputs


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        (torch.zeros(1, 2, 50), TypeError, "got a tensor of torch.float32; expected integer character ids"),
        (torch.zeros(1, 2, 50, dtype=torch.bool), TypeError, "got a tensor of torch.bool"),
        ([["a", "word"]], TypeError, "got list; expected integer character ids"),
        (torch.ones(2, 3, dtype=torch.long), ValueError, r"got shape \(2, 3\)"),
        (
            torch.ones(2, 3, 49, dtype=torch.long),
            ValueError,
            r"got shape \(2, 3, 49\); expected .* \(batch, words, 50\)",
        ),
        (torch.full((1, 2, 50), 262), ValueError, "got ids from 262 to 262; expected character ids from 0"),
        (torch.full((1, 2, 50), -1), ValueError, "got ids from -1 to -1"),
    ],
)
def test_what_is_no_batch_of_character_ids_is_refused(
    original: Original, inputs: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^inputs: {message}"):
        _elmo(original, 1)(inputs)


def test_wrong_arguments_are_refused(original: Original) -> None:
    with pytest.raises(ValueError, match="num_output_representations: got 0"):
        _elmo(original, 0)
    with pytest.raises(ValueError, match="got 2 values"):
        _elmo(original, 1, scalar_mix_parameters=[0, 1])
