import numpy as np
import pytest
import torch

from hf_elmo.lm_head import LMHead
from tests.hf_elmo.models import randomise, tiny_config


def _head(**options: object) -> LMHead:
    head = LMHead(tiny_config(**options)).double()
    randomise(head)
    return head


X = torch.randn(2, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([[1, 29, 3, 0], [-100, 7, 7, 2]])  # word ids: 0 is <pad>


def test_the_full_loss_is_the_mean_over_counted_words() -> None:
    head = _head().eval()
    logits = X.numpy() @ head.weight.detach().numpy().T + head.bias.detach().numpy()
    log_probability = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    losses = [-log_probability[b, t, LABELS[b, t] - 1] for b in range(2) for t in range(4) if LABELS[b, t] > 0]
    assert len(losses) == 6
    assert head.loss(X, LABELS).item() == pytest.approx(np.mean(losses), abs=1e-12)
    np.testing.assert_allclose(head.negative_log_likelihood(X, LABELS).detach(), losses, atol=1e-12)


def test_log_probabilities_are_those_of_the_loss() -> None:
    for options in ({"lm_softmax": "full"}, {"lm_softmax": "sampled"}):
        head = _head(**options).train()  # exact while training too
        log_probabilities = head.log_probabilities(X)  # (2, 4, V)
        torch.testing.assert_close(log_probabilities.exp().sum(-1), torch.ones(2, 4, dtype=torch.float64))
        picked = log_probabilities.gather(-1, LABELS.clamp(min=1).unsqueeze(-1) - 1).squeeze(-1)
        torch.testing.assert_close(-picked[LABELS > 0], head.negative_log_likelihood(X, LABELS))


def test_nothing_to_predict_is_no_loss() -> None:
    head = _head().eval()
    loss = head.loss(X, torch.zeros_like(LABELS))
    loss.backward()
    assert loss.item() == 0


def test_training_samples_and_evaluation_does_not() -> None:
    head = _head()
    losses = {head.train().loss(X, LABELS).item() for _ in range(5)}
    assert len(losses) == 5
    assert len({head.eval().loss(X, LABELS).item() for _ in range(5)}) == 1


@pytest.mark.parametrize(
    "options", [{"lm_softmax": "full"}, {"num_negative_samples": 29}, {"num_negative_samples": 8192}]
)
def test_a_small_vocabulary_is_not_sampled(options: dict[str, object]) -> None:
    head = _head(**options)
    assert not head.sampled
    assert head.train().loss(X, LABELS).item() == head.eval().loss(X, LABELS).item()


def test_the_sampled_loss_estimates_the_full_one() -> None:
    """Over many draws the sampled loss's gradient for the inputs points where the full one's does."""
    head = _head(num_negative_samples=20).train()
    x = X.clone().requires_grad_()
    torch.manual_seed(0)
    sampled = torch.stack([torch.autograd.grad(head.loss(x, LABELS), x)[0] for _ in range(300)]).mean(0)
    full = torch.autograd.grad(head.eval().loss(x, LABELS), x)[0]
    assert torch.nn.functional.cosine_similarity(sampled.flatten(), full.flatten(), dim=0) > 0.99
