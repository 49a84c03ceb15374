import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo import ElmoForPreTraining
from hf_elmo.adaptive_lm_head import AdaptiveLMHead
from tests.hf_elmo.models import ids, random_lm, randomise, tiny_config

ADAPTIVE = {"lm_softmax": "adaptive", "adaptive_cutoffs": [5, 12], "adaptive_div_value": 2}
X = torch.randn(2, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([[1, 29, 3, 0], [-100, 7, 6, 2]])  # word ids: 0 is <pad>


def head_of(**options: object) -> AdaptiveLMHead:
    head = AdaptiveLMHead(tiny_config(**{**ADAPTIVE, **options})).double()
    randomise(head)
    return head


def log_probability_by_hand(head: AdaptiveLMHead, x: np.ndarray, row: int) -> float:
    """Grave et al. 2017: log p(cluster) + log p(word | cluster), or log p(word) of a frequent one."""
    weights = {name: values.detach().numpy() for name, values in head.adaptive.named_parameters()}
    begins, ends = (0, 5, 12), (5, 12, 29)
    cluster = next(number for number, end in enumerate(ends) if row < end)
    first = weights["head.weight"] @ x + weights["head.bias"]
    normaliser = np.log(np.exp(first).sum())
    if cluster == 0:
        return first[row] - normaliser
    within = weights[f"tail.{cluster - 1}.1.weight"] @ (weights[f"tail.{cluster - 1}.0.weight"] @ x)
    word = within[row - begins[cluster]] - np.log(np.exp(within).sum())
    return first[5 + cluster - 1] - normaliser + word


def test_losses_are_the_papers_formula() -> None:
    head = head_of()
    losses = [
        -log_probability_by_hand(head, X[b, t].numpy(), int(LABELS[b, t]) - 1)
        for b in range(2)
        for t in range(4)
        if LABELS[b, t] > 0
    ]
    np.testing.assert_allclose(head.negative_log_likelihood(X, LABELS).detach(), losses, atol=1e-12)
    for mode in (True, False):
        assert head.train(mode).loss(X, LABELS).item() == pytest.approx(np.mean(losses), abs=1e-12)


def test_widths_shrink_by_the_factor() -> None:
    shapes = {name: tuple(values.shape) for name, values in head_of().adaptive.named_parameters()}
    assert shapes == {
        "head.weight": (5 + 2, 6),
        "head.bias": (7,),
        "tail.0.0.weight": (3, 6),
        "tail.0.1.weight": (7, 3),
        "tail.1.0.weight": (1, 6),
        "tail.1.1.weight": (17, 1),
    }


@given(data=st.data(), num_words=st.integers(4, 60))
def test_probabilities_sum_to_one_and_are_those_of_the_loss(data: st.DataObject, num_words: int) -> None:
    cutoffs = data.draw(st.lists(st.integers(1, num_words - 1), min_size=1, max_size=3, unique=True))
    head = head_of(vocab_size=num_words + 1, adaptive_cutoffs=sorted(cutoffs), adaptive_div_value=1.5)
    with torch.no_grad():
        log_probabilities = head.log_probabilities(X)  # (2, 4, V)
        assert log_probabilities.shape == (2, 4, num_words)
        torch.testing.assert_close(log_probabilities.exp().sum(-1), torch.ones(2, 4, dtype=torch.float64))
        labels = 1 + torch.arange(num_words).repeat(8)[:8].reshape(2, 4)
        expected = -log_probabilities.gather(-1, labels.unsqueeze(-1) - 1).flatten()
        torch.testing.assert_close(head.negative_log_likelihood(X, labels), expected)
        torch.testing.assert_close(head.log_probabilities(X[0, 0]), log_probabilities[0, 0])


def test_nothing_to_predict_is_no_loss_and_every_parameter_has_a_gradient() -> None:
    """Processes that train together wait for each other's gradients, of clusters without a word too."""
    head = head_of().train()
    for labels, of_clusters in ((torch.zeros_like(LABELS), [False, False]), (LABELS.clamp(max=7), [True, False])):
        head.zero_grad()
        loss = head.loss(X, labels)
        loss.backward()
        gradients = dict(head.adaptive.named_parameters())
        assert all(values.grad is not None for values in gradients.values())
        assert [bool(gradients[f"tail.{n}.1.weight"].grad.any()) for n in range(2)] == of_clusters
    assert head.loss(X, torch.zeros_like(LABELS)).item() == 0


def test_a_language_model_is_saved_and_loaded(tmp_path) -> None:
    model = random_lm(**ADAPTIVE)
    character_ids, mask = ids([["a", "b"], ["c"]])
    model.save_pretrained(tmp_path)
    loaded = ElmoForPreTraining.from_pretrained(tmp_path)
    assert loaded.config.adaptive_cutoffs == [5, 12]
    arguments = {"character_ids": character_ids, "attention_mask": mask, "labels": mask * 20}
    assert loaded(**arguments).loss.item() == model(**arguments).loss.item()


def test_initial_values() -> None:
    """Each row's logit starts with the same spread, and no bias."""
    torch.manual_seed(0)
    options = {"vocab_size": 4001, "projection_size": 64, "adaptive_cutoffs": [1000, 2000], "lm_softmax": "adaptive"}
    head = ElmoForPreTraining(tiny_config(**options)).lm_head.adaptive
    assert not head.head.bias.any()
    for linear in (head.head, *(part for cluster in head.tail for part in cluster)):
        assert linear.weight.std().item() == pytest.approx(linear.in_features**-0.5, rel=0.2)


def test_mixed_precision_trains() -> None:
    model = random_lm(dropout=0.0, **ADAPTIVE).train()
    character_ids, mask = ids([["a", "b", "c"], ["d"]])
    expected = model(character_ids, mask, labels=mask * 20).loss
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(character_ids, mask, labels=mask * 20).loss
    loss.backward()
    torch.testing.assert_close(loss.float(), expected, rtol=0.02, atol=0)
