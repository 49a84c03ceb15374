"""What the sampled softmax estimates, over many draws.

Tolerances are 4.5 standard errors of the mean over the draws: with a right estimator each comparison fails with a
probability of 7e-6. The draws are seeded.
"""

import math

import numpy as np
import pytest
import torch

from hf_elmo.sampled_softmax import Negatives, draw_negatives, sampled_softmax_loss

STANDARD_ERRORS = 4.5


def probabilities(num_classes: int) -> np.ndarray:
    """Of one draw: p(k) = (ln(k+2) - ln(k+1)) / ln(V+1)."""
    k = np.arange(num_classes)
    return (np.log(k + 2.0) - np.log(k + 1.0)) / np.log(num_classes + 1.0)


def expected_count(num_classes: int, tries: float) -> np.ndarray:
    """The reference's Q(k) = 1 - (1 - p)^tries."""
    return 1 - (1 - probabilities(num_classes)) ** tries


def inclusion_probability(num_classes: int, num_samples: int) -> np.ndarray:
    """Exactly, of drawing with replacement until `num_samples` classes are distinct.

    Let class k arrive at an exponential time of rate p(k); the sample is the first n classes to arrive. Class k is in
    it if at its time fewer than n others are there: an integral over time of a sum of independent Bernoullis.
    """
    p = probabilities(num_classes)
    nodes, weights = np.polynomial.legendre.leggauss(80)
    inside = np.zeros(num_classes)
    for k in range(num_classes):
        u = (nodes + 1) / 2  # k has arrived by its time with probability u
        arrived = 1 - (1 - u)[:, None] ** (np.delete(p, k) / p[k])  # (nodes, V - 1)
        fewer = np.zeros((len(u), num_samples))
        fewer[:, 0] = 1
        for other in arrived.T[..., None]:
            shifted = np.pad(fewer, ((0, 0), (1, 0)))[:, :-1]
            fewer = fewer * (1 - other) + shifted * other
        inside[k] = weights @ fewer.sum(axis=1) / 2
    return inside


def draws_of(num_classes: int, num_samples: int, count: int, seed: int = 0) -> list[Negatives]:
    generator = torch.Generator().manual_seed(seed)
    return [draw_negatives(num_classes, num_samples, generator) for _ in range(count)]


def held(draws: list[Negatives], num_classes: int) -> np.ndarray:
    """(draws, V) whether a draw holds a class."""
    inside = np.zeros((len(draws), num_classes), bool)
    for row, draw in zip(inside, draws, strict=True):
        row[draw.classes.numpy()] = True
    return inside


def assert_mean(samples: np.ndarray, expected: np.ndarray | float) -> None:
    """Over the first axis."""
    error = samples.std(axis=0, ddof=1) / math.sqrt(len(samples))
    assert (abs(samples.mean(axis=0) - expected) <= STANDARD_ERRORS * error).all()


@pytest.fixture(scope="module")
def case() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"x": rng.normal(size=(6, 5)), "W": 0.5 * rng.normal(size=(40, 5)), "b": rng.normal(size=40)}


NUM_CLASSES, NUM_SAMPLES, DRAWS = 40, 12, 3000


class TestSampler:
    @pytest.fixture(scope="class")
    @classmethod
    def draws(cls) -> list[Negatives]:
        return draws_of(NUM_CLASSES, NUM_SAMPLES, DRAWS)

    def test_inclusion_of_two_of_three_is_the_one_counted_out(self) -> None:
        """The formula above, against all orders in which classes can be seen first."""
        p = probabilities(3)
        first_two = {(a, b): p[a] * p[b] / (1 - p[a]) for a in range(3) for b in range(3) if a != b}
        expected = [sum(q for pair, q in first_two.items() if k in pair) for k in range(3)]
        np.testing.assert_allclose(inclusion_probability(3, 2), expected, rtol=1e-6)

    def test_a_class_is_drawn_as_often_as_it_should(self, draws: list[Negatives]) -> None:
        exact = inclusion_probability(NUM_CLASSES, NUM_SAMPLES)
        assert exact.sum() == pytest.approx(NUM_SAMPLES, rel=1e-6)
        assert_mean(held(draws, NUM_CLASSES).astype(float), exact)

    def test_the_sum_over_the_sample_is_unbiased(self, draws: list[Negatives], case: dict[str, np.ndarray]) -> None:
        """The mean over draws of the sum of exp(logit - log Q) is the whole partition sum, Q being exact."""
        terms = np.exp(case["W"] @ case["x"][0] + case["b"])  # (V,)
        sums = held(draws, NUM_CLASSES) @ (terms / inclusion_probability(NUM_CLASSES, NUM_SAMPLES))
        assert_mean(sums, terms.sum())

    def test_the_references_count_comes_close_as_the_vocabulary_grows(self) -> None:
        """Its number of tries is that of the draw itself, so that its mean is the exact Q only for large samples."""
        worst = {}
        for num_classes, num_samples in ((12, 4), (40, 13), (120, 40)):
            draws = draws_of(num_classes, num_samples, 1000, seed=1)
            counts = np.array([expected_count(num_classes, draw.num_tries) for draw in draws])
            exact = inclusion_probability(num_classes, num_samples)
            worst[num_classes] = abs(counts.mean(axis=0) / exact - 1).max()  # known to 0.008 or better
        assert 0.05 > worst[12] > worst[40] > worst[120]
        assert worst[120] < 0.015


class TestLoss:
    def sums_of_loss(self, case: dict[str, np.ndarray], draws: list[Negatives]) -> tuple[np.ndarray, np.ndarray]:
        """Per draw and position the sum over the negatives that the loss holds, (draws, N), and what it estimates."""
        targets = np.array([0, 1, 5, 13, 27, 39])
        tensors = [torch.from_numpy(values) for values in (case["x"], targets, case["W"], case["b"])]
        losses = np.array([sampled_softmax_loss(*tensors, draw).numpy() for draw in draws])  # (draws, N)
        terms = np.exp(case["x"] @ case["W"].T + case["b"])  # (N, V)
        of_target = terms[np.arange(6), targets]
        counts = np.array([expected_count(NUM_CLASSES, draw.num_tries)[targets] for draw in draws])
        return (np.exp(losses) - 1) * of_target / counts, terms.sum(axis=1) - of_target

    def test_is_unbiased_for_a_given_number_of_tries(self, case: dict[str, np.ndarray]) -> None:
        """Then 1 - (1 - p)^tries is the exact chance of being drawn, and the loss's sum an unbiased estimate."""
        rng = np.random.default_rng(2)
        tries, p = 30, probabilities(NUM_CLASSES)
        draws = [
            Negatives(torch.from_numpy(np.unique(rng.choice(NUM_CLASSES, size=tries, p=p))), tries)
            for _ in range(DRAWS)
        ]
        sums, expected = self.sums_of_loss(case, draws)
        assert_mean(sums, expected)

    def test_is_nearly_so_as_it_is_drawn(self, case: dict[str, np.ndarray]) -> None:
        """With the tries of the draw itself, 12 of 40 classes: within 2 % of the partition sum."""
        sums, expected = self.sums_of_loss(case, draws_of(NUM_CLASSES, NUM_SAMPLES, DRAWS, seed=3))
        error = sums.std(axis=0, ddof=1) / math.sqrt(DRAWS)
        np.testing.assert_array_less(abs(sums.mean(axis=0) - expected), 0.02 * expected + STANDARD_ERRORS * error)
        np.testing.assert_array_less(error, 0.02 * expected)  # so that the test tells

    def test_its_gradient_comes_close_to_the_full_one_as_the_sample_grows(self, case: dict[str, np.ndarray]) -> None:
        x, W, b = (torch.from_numpy(case[name]) for name in ("x", "W", "b"))
        W.requires_grad_()
        targets = torch.tensor([0, 1, 5, 13, 27, 39])
        [full] = torch.autograd.grad(torch.nn.functional.cross_entropy(x @ W.T + b, targets), W)
        distances = []
        for num_samples in (4, 12, 36):
            draws = draws_of(NUM_CLASSES, num_samples, 400, seed=4)
            losses = (sampled_softmax_loss(x, targets, W, b, draw).mean() for draw in draws)
            mean = sum(torch.autograd.grad(loss, W)[0] for loss in losses) / len(draws)
            distances.append(((mean - full).norm() / full.norm()).item())
        assert distances == sorted(distances, reverse=True)
        assert distances[0] > 0.1
        assert distances[2] < 0.05

    def test_with_every_class_drawn_for_sure_it_is_the_full_softmax(self, case: dict[str, np.ndarray]) -> None:
        x, W, b = (torch.from_numpy(case[name]) for name in ("x", "W", "b"))
        targets = torch.tensor([0, 1, 5, 13, 27, 39])
        got = sampled_softmax_loss(x, targets, W, b, Negatives(torch.arange(40), num_tries=10**9))
        torch.testing.assert_close(got, torch.nn.functional.cross_entropy(x @ W.T + b, targets, reduction="none"))
