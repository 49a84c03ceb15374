"""The CRF against the enumeration of all sequences of tags."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.crf import CRF


def random_crf(num_tags: int, seed: int) -> CRF:
    crf = CRF(num_tags).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.normal_(generator=generator)
    return crf


def all_paths(crf: CRF, scores: np.ndarray) -> dict[tuple[int, ...], float]:
    """Score of every sequence of tags of one sentence (n, K)."""
    transitions, start, end = (
        parameter.detach().numpy() for parameter in (crf.transitions, crf.start_transitions, crf.end_transitions)
    )
    paths = {}
    for tags in itertools.product(range(scores.shape[1]), repeat=len(scores)):
        score = start[tags[0]] + end[tags[-1]] + sum(scores[t, tag] for t, tag in enumerate(tags))
        paths[tags] = score + sum(transitions[a, b] for a, b in itertools.pairwise(tags))
    return paths


def log_sum(values: list[float]) -> float:
    return float(np.logaddexp.reduce(values))


@st.composite
def batches(draw: st.DrawFn) -> tuple[CRF, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A CRF, scores (B, T, K), a mask with holes (B, T), tags of which some are unknown (B, T)."""
    num_tags, rows, width = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 5))
    seed = draw(st.integers(0, 10**6))
    generator = torch.Generator().manual_seed(seed)
    bits = st.lists(st.lists(st.booleans(), min_size=width, max_size=width), min_size=rows, max_size=rows)
    mask, known = torch.tensor(draw(bits)), torch.tensor(draw(bits))
    scores = 2 * torch.randn(rows, width, num_tags, generator=generator, dtype=torch.float64)
    tags = torch.randint(num_tags, (rows, width), generator=generator).masked_fill(~known, -100)
    return random_crf(num_tags, seed), scores, mask, tags


@given(batches())
def test_it_equals_the_enumeration(batch: tuple[CRF, torch.Tensor, torch.Tensor, torch.Tensor]) -> None:
    crf, scores, mask, tags = batch
    with torch.no_grad():
        partitions, likelihoods = crf.log_partition(scores, mask), crf.log_likelihood(scores, tags, mask)
        marginals, decoded = crf.log_marginals(scores, mask), crf.decode(scores, mask)
    for row in range(len(scores)):
        words = mask[row].nonzero().squeeze(1)
        assert (decoded[row][~mask[row]] == -100).all()
        assert not marginals[row][~mask[row]].any()
        if not len(words):
            assert partitions[row] == likelihoods[row] == 0
            continue
        paths = all_paths(crf, scores[row, words].numpy())
        total = log_sum(list(paths.values()))
        assert partitions[row].item() == pytest.approx(total, abs=1e-9)
        given_tags = tags[row, words].tolist()
        agreeing = [
            score
            for path, score in paths.items()
            if all(tag in (-100, mine) for tag, mine in zip(given_tags, path, strict=True))
        ]
        assert likelihoods[row].item() == pytest.approx(log_sum(agreeing) - total, abs=1e-9)
        best = max(paths, key=paths.__getitem__)
        assert tuple(decoded[row, words].tolist()) == best
        for place, word in enumerate(words.tolist()):
            for tag in range(scores.shape[-1]):
                share = log_sum([score for path, score in paths.items() if path[place] == tag]) - total
                assert marginals[row, word, tag].item() == pytest.approx(share, abs=1e-9)


def test_marginals_are_the_gradient_of_the_partition() -> None:
    crf, mask = random_crf(4, 1), torch.tensor([[False, True, True, False, True], [True, True, False, False, False]])
    scores = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)
    crf.log_partition(scores, mask).sum().backward()
    expected = crf.log_marginals(scores.detach(), mask).exp() * mask.unsqueeze(-1)
    torch.testing.assert_close(scores.grad, expected)


def test_gradients_are_finite_and_reach_every_parameter() -> None:
    crf, mask = random_crf(3, 2), torch.tensor([[True, True, True], [False, False, False]])
    scores = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
    tags = torch.tensor([[0, -100, 2], [-100, -100, -100]])
    (-crf.log_likelihood(scores, tags, mask)).sum().backward()
    assert torch.isfinite(scores.grad).all()
    assert not scores.grad[1].any()
    assert all(parameter.grad.any() and torch.isfinite(parameter.grad).all() for parameter in crf.parameters())


def test_half_precision_scores_are_summed_in_float32() -> None:
    crf = random_crf(3, 3).float()
    scores = torch.randn(1, 200, 3)
    mask = torch.ones(1, 200, dtype=torch.bool)
    half = crf.log_partition(scores.bfloat16(), mask)
    assert half.dtype == torch.float32
    torch.testing.assert_close(half, crf.log_partition(scores.bfloat16().float(), mask))


def test_it_learns_that_a_tag_never_follows_another() -> None:
    """What a classifier of single words cannot: the same scores everywhere, alternating tags."""
    torch.manual_seed(0)
    crf, scores = CRF(2), torch.zeros(1, 6, 2)
    mask, tags = torch.ones(1, 6, dtype=torch.bool), torch.tensor([[1, 0, 1, 0, 1, 0]])
    before = -crf.log_likelihood(scores, tags, mask).item()
    optimizer = torch.optim.SGD(crf.parameters(), lr=0.5)
    for _ in range(100):
        optimizer.zero_grad()
        (-crf.log_likelihood(scores, tags, mask)).sum().backward()
        optimizer.step()
    assert before == pytest.approx(6 * np.log(2), abs=1e-5)
    assert -crf.log_likelihood(scores, tags, mask).item() < 0.3
    assert crf.decode(scores, mask).tolist() == tags.tolist()
