import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.sampled_softmax import Negatives, draw_negatives, log_uniform_probability, sampled_softmax_loss


def _expected_count(k: np.ndarray, num_classes: int, num_tries: int) -> np.ndarray:
    """ELMo's reference: p(k) = (ln(k+2) - ln(k+1)) / ln(V+1), Q = 1 - (1 - p)^tries."""
    p = (np.log(k + 2.0) - np.log(k + 1.0)) / np.log(num_classes + 1.0)
    return 1 - (1 - p) ** num_tries


def test_probabilities_add_up_to_one() -> None:
    assert log_uniform_probability(torch.arange(1000), 1000).sum().item() == pytest.approx(1)


@given(st.integers(2, 300), st.data())
def test_negatives_are_distinct_and_in_range(num_classes: int, data: st.DataObject) -> None:
    num_samples = data.draw(st.integers(1, num_classes - 1))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    negatives = draw_negatives(num_classes, num_samples, generator)
    assert len(set(negatives.classes.tolist())) == num_samples
    assert 0 <= min(negatives.classes) <= max(negatives.classes) < num_classes
    assert negatives.num_tries >= num_samples


def test_classes_are_drawn_as_often_as_the_correction_says() -> None:
    """A draw of n distinct classes holds class k with the probability that its own number of tries implies."""
    num_classes, num_samples, draws = 40, 8, 4000
    generator = torch.Generator().manual_seed(0)
    seen, expected = np.zeros(num_classes), np.zeros(num_classes)
    for _ in range(draws):
        negatives = draw_negatives(num_classes, num_samples, generator)
        seen[negatives.classes.numpy()] += 1
        expected += _expected_count(np.arange(num_classes), num_classes, negatives.num_tries)
    # The correction is the reference's approximation: the number of tries is itself random.
    np.testing.assert_allclose(seen / draws, expected / draws, atol=0.03)


def test_the_loss_is_the_references_formula() -> None:
    rng = np.random.default_rng(0)
    num_classes, positions, width = 30, 12, 5
    x, weight, bias = (
        rng.normal(size=(positions, width)),
        rng.normal(size=(num_classes, width)),
        rng.normal(size=num_classes),
    )
    targets = rng.integers(0, num_classes, positions)
    negatives = draw_negatives(num_classes, 15, torch.Generator().manual_seed(3))
    classes = negatives.classes.numpy()
    assert set(classes) & set(targets)  # some negatives are targets
    losses = []
    for position, target in enumerate(targets):

        def logit(k: int, position: int = position) -> float:
            count = _expected_count(np.array(k), num_classes, negatives.num_tries)
            return float(x[position] @ weight[k] + bias[k] - np.log(count))

        logits = [logit(target)] + [logit(k) for k in classes if k != target]
        losses.append(math.log(sum(math.exp(value) for value in logits)) - logits[0])
    got = sampled_softmax_loss(*map(torch.from_numpy, (x, targets, weight, bias)), negatives)
    np.testing.assert_allclose(got, losses, rtol=0, atol=1e-12)


def test_the_gradient_is_that_of_the_numbers() -> None:
    generator = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()
        for shape in ((4, 3), (9, 3), (9,))
    )
    targets = torch.tensor([0, 3, 3, 8])
    negatives = Negatives(torch.tensor([3, 1, 0, 5]), num_tries=6)
    assert torch.autograd.gradcheck(
        lambda *p: sampled_softmax_loss(p[0], targets, p[1], p[2], negatives), (x, weight, bias)
    )


@pytest.mark.parametrize("num_samples", [0, 11])
def test_a_sample_that_cannot_be_drawn_is_refused(num_samples: int) -> None:
    with pytest.raises(ValueError, match=f"got {num_samples}; expected 1 to 10"):
        draw_negatives(10, num_samples)
