"""A linear-chain conditional random field over the tags of a sentence (Lafferty et al. 2001)."""

import torch
from torch import Tensor, nn

from hf_elmo.reading_order import reading_orders

IGNORED = -100
# What forbids a tag: smaller than any score, and finite, so that gradients are.
_FORBIDDEN = -1e30


class CRF(nn.Module):
    r"""Scores a sequence of tags by its words' scores and by its pairs of neighbours, exactly.

    .. math::
        s(y) = a_{y_1} + \sum_t x_{t, y_t} + \sum_t A_{y_t, y_{t+1}} + b_{y_n},
        \qquad \log p(y) = s(y) - \log \sum_{y'} \exp s(y')

    The chain of a row are the positions where the mask is True, in their order: padding may be on any side, and
    positions in between may be left out.

    Args:
        num_tags: K.
    """

    def __init__(self, num_tags: int) -> None:
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(num_tags, num_tags))  # from row to column
        self.start_transitions = nn.Parameter(torch.zeros(num_tags))
        self.end_transitions = nn.Parameter(torch.zeros(num_tags))

    def log_likelihood(self, scores: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """Log-probability of each row's tags; a word whose tag is -100 may have any, and all of them are summed.

        Shape:
            scores (B, T, K), tags (B, T), mask (B, T) bool → (B,)
        """
        scores = _at_least_float32(scores)
        candidates = torch.arange(scores.shape[-1], device=tags.device)
        wrong = (tags != IGNORED).unsqueeze(-1) & (tags.unsqueeze(-1) != candidates)  # (B, T, K)
        given = self.log_partition(scores.masked_fill(wrong, _FORBIDDEN), mask)
        return given - self.log_partition(scores, mask)

    def log_partition(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Logarithm of the sum over all sequences of tags; 0 for a row without words.

        Shape:
            scores (B, T, K), mask (B, T) bool → (B,)
        """
        orders = reading_orders(mask)
        last = self._prefix_scores(orders.forward.read(_at_least_float32(scores)), orders.step_mask)[-1]
        return torch.logsumexp(last + self.end_transitions, dim=-1) * orders.step_mask[:, 0]

    def log_marginals(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Log-probability of each tag of each word, given the whole sentence; 0 where there is no word.

        Shape:
            scores (B, T, K), mask (B, T) bool → (B, T, K)
        """
        orders = reading_orders(mask)
        scores, steps = orders.forward.read(_at_least_float32(scores)), orders.step_mask
        prefixes = torch.stack(self._prefix_scores(scores, steps), dim=1)  # (B, T, K)
        suffixes = torch.stack(self._suffix_scores(scores, steps), dim=1)  # (B, T, K)
        marginals = torch.log_softmax(prefixes + suffixes, dim=-1)
        return orders.forward.put_back(marginals) * mask.unsqueeze(-1)

    @torch.no_grad()
    def decode(self, scores: Tensor, mask: Tensor) -> Tensor:
        """The most probable sequence of tags (Viterbi); -100 where there is no word.

        Shape:
            scores (B, T, K), mask (B, T) bool → (B, T)
        """
        orders = reading_orders(mask)
        scores, steps = orders.forward.read(_at_least_float32(scores)), orders.step_mask
        best = self.start_transitions + scores[:, 0]  # (B, K)
        stay = torch.arange(scores.shape[-1], device=scores.device).expand_as(best)
        came_from = []
        for score, alive in zip(scores.unbind(1)[1:], steps.unbind(1)[1:], strict=True):
            value, previous = (best.unsqueeze(2) + self.transitions).max(dim=1)  # (B, K) each
            best = torch.where(alive.unsqueeze(1), value + score, best)
            came_from.append(torch.where(alive.unsqueeze(1), previous, stay))
        tags = [(best + self.end_transitions).argmax(dim=-1, keepdim=True)]  # (B, 1)
        for previous in reversed(came_from):
            tags.append(previous.gather(1, tags[-1]))
        path = torch.cat(tags[::-1], dim=1).unsqueeze(-1)  # (B, T, 1), by step
        return orders.forward.put_back(path).squeeze(-1).masked_fill(~mask, IGNORED)

    def _prefix_scores(self, scores: Tensor, steps: Tensor) -> list[Tensor]:
        """For each step the log-sum over all beginnings that end in each tag, a finished row's last: T × (B, K)."""
        prefixes = [self.start_transitions + scores[:, 0]]
        for score, alive in zip(scores.unbind(1)[1:], steps.unbind(1)[1:], strict=True):
            summed = torch.logsumexp(prefixes[-1].unsqueeze(2) + self.transitions, dim=1) + score
            prefixes.append(torch.where(alive.unsqueeze(1), summed, prefixes[-1]))
        return prefixes

    def _suffix_scores(self, scores: Tensor, steps: Tensor) -> list[Tensor]:
        """For each step the log-sum over all that may follow each tag: T × (B, K)."""
        suffixes = [self.end_transitions.expand_as(scores[:, 0])]
        for score, alive in zip(reversed(scores.unbind(1)[1:]), reversed(steps.unbind(1)[1:]), strict=True):
            summed = torch.logsumexp(self.transitions + (score + suffixes[-1]).unsqueeze(1), dim=2)
            suffixes.append(torch.where(alive.unsqueeze(1), summed, suffixes[-1]))
        return suffixes[::-1]


def _at_least_float32(scores: Tensor) -> Tensor:
    return scores.to(torch.promote_types(scores.dtype, torch.float32))
