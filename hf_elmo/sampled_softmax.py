"""Softmax over a large vocabulary with a sample of negatives (Jean et al. 2015; the reference's training loss)."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Negatives(NamedTuple):
    """A draw of distinct classes.

    Attributes:
        classes: (n,) the classes drawn.
        num_tries: how many draws with replacement it took to see n distinct ones.
    """

    classes: Tensor
    num_tries: int


def log_uniform_probability(classes: Tensor, num_classes: int) -> Tensor:
    r"""Probability of one draw: \(p(k) = (\ln(k+2) - \ln(k+1)) / \ln(V+1)\), which falls like a word's frequency where
    words are numbered by falling frequency.

    Shape:
        classes (...) → (...)
    """
    k = classes.to(torch.float64)
    return torch.log1p(1 / (k + 1)) / math.log(num_classes + 1)


def draw_negatives(num_classes: int, num_samples: int, generator: torch.Generator | None = None) -> Negatives:
    """Draw log-uniformly with replacement until `num_samples` classes are distinct.

    Raises:
        ValueError: more samples are asked for than there are classes.
    """
    if not 0 < num_samples <= num_classes:
        raise ValueError(
            f"num_negative_samples: got {num_samples}; expected 1 to {num_classes}, the number of classes.  "
            'Use lm_softmax="full" for a small vocabulary.'
        )
    drawn = torch.empty(0, dtype=torch.int64)
    while True:
        uniform = torch.rand(4 * num_samples, dtype=torch.float64, generator=generator)
        block = (torch.exp(uniform * math.log(num_classes + 1)) - 1).long().clamp(max=num_classes - 1)
        drawn = torch.cat([drawn, block])
        classes, first_seen = _first_occurrences(drawn)
        if len(classes) >= num_samples:
            return Negatives(classes[:num_samples], num_tries=int(first_seen[num_samples - 1]) + 1)


def _first_occurrences(drawn: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct classes in the order in which they were first drawn, and at which draw that was."""
    classes, index = torch.unique(drawn, return_inverse=True)
    first = torch.full_like(classes, len(drawn)).scatter_reduce_(0, index, torch.arange(len(drawn)), "amin")
    first, order = first.sort()
    return classes[order], first


def sampled_softmax_loss(
    x: Tensor,
    targets: Tensor,
    weight: Tensor,
    bias: Tensor,
    negatives: Negatives,
    *,
    sparse_gradient: bool = False,
) -> Tensor:
    r"""Cross-entropy of each target against the negatives, each logit lessened by the log of its class's expected count
    \(Q(k) = 1 - (1 - p(k))^{\mathrm{tries}}\); a negative that is the target itself is left out.

    Args:
        x: outputs of the biLM's top layer.
        targets: classes, 0..V-1.
        weight, bias: the softmax's parameters.
        negatives: one draw, shared by all positions.
        sparse_gradient: give `weight` and `bias` sparse gradients, of the rows that were read.

    Shape:
        x (N, P), targets (N,), weight (V, P), bias (V,) → (N,)
    """
    classes = negatives.classes.to(x.device)
    log_counts = _log_expected_count(torch.cat([targets, classes]), len(weight), negatives.num_tries).to(x)
    target_log_counts, class_log_counts = log_counts.split([len(targets), len(classes)])
    class_weight, target_weight = (F.embedding(rows, weight, sparse=sparse_gradient) for rows in (classes, targets))
    class_bias, target_bias = (bias.gather(0, rows, sparse_grad=sparse_gradient) for rows in (classes, targets))
    # The correction is part of the bias, so that it costs nothing per position.
    sampled_logits = F.linear(x, class_weight, class_bias - class_log_counts)  # (N, n)
    sampled_logits = _leave_out_targets(sampled_logits, targets, classes)
    target_logits = (x * target_weight).sum(dim=1) + target_bias - target_log_counts  # (N,)
    return torch.logaddexp(target_logits, sampled_logits.logsumexp(dim=1)) - target_logits


def _leave_out_targets(logits: Tensor, targets: Tensor, classes: Tensor) -> Tensor:
    """Logits (N, n) with -inf where a position's target (N,) stands among the classes (n,)."""
    ordered, order = classes.sort()
    place = torch.searchsorted(ordered, targets).clamp(max=len(classes) - 1)
    hits = (ordered[place] == targets).nonzero().squeeze(1)
    # At most one cell a row, written instead of comparing all N · n of them.
    return logits.index_put((hits, order[place[hits]]), logits.new_tensor(-math.inf))


def _log_expected_count(classes: Tensor, num_classes: int, num_tries: int) -> Tensor:
    p = log_uniform_probability(classes, num_classes)
    return torch.log(-torch.expm1(num_tries * torch.log1p(-p)))
