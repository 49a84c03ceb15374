import numpy as np
import torch

from hf_elmo.maxout import Maxout


def test_it_is_the_largest_of_its_linear_maps() -> None:
    maxout = Maxout(3, 2, pieces=4).eval()
    maxout.norm.running_mean.fill_(0.5)
    x = torch.randn(5, 3)
    normalised = (x.numpy() - 0.5) / np.sqrt(1 + maxout.norm.eps)
    maps = normalised @ maxout.linear.weight.detach().numpy().T + maxout.linear.bias.detach().numpy()  # (5, 8)
    np.testing.assert_allclose(maxout(x).detach(), maps.reshape(5, 2, 4).max(-1), atol=1e-6)


def test_training_normalises_over_the_batch() -> None:
    maxout = Maxout(3, 2).train()
    x = 7 + 3 * torch.randn(50, 3)
    torch.testing.assert_close(maxout(x), maxout(100 * x), atol=1e-3, rtol=1e-3)


def test_a_batch_of_one_row_trains_on_what_was_seen_before() -> None:
    maxout = Maxout(3, 2).train()
    maxout(torch.randn(50, 3))
    seen = maxout.norm.running_mean.clone()
    x = torch.randn(1, 3)
    trained = maxout(x)
    trained.sum().backward()
    assert torch.equal(maxout.norm.running_mean, seen)
    torch.testing.assert_close(trained, maxout.eval()(x))
