"""The softmax over words that both directions of the biLM share (Peters et al. 2018, section 3.1)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.sampled_softmax import draw_negatives, sampled_softmax_loss

# Positions whose full softmax is held in memory at once, times the vocabulary.
_POSITIONS_PER_CHUNK = 512


class LMHead(nn.Module):
    """One row and one bias per word of the vocabulary file, in its order; `<pad>` has none.

    Args:
        config: `vocab_size`, `projection_size`, `lm_softmax` and `num_negative_samples` are read.
    """

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        num_words = config.vocab_size - 1
        self.weight = nn.Parameter(torch.empty(num_words, config.projection_size))
        self.bias = nn.Parameter(torch.zeros(num_words))
        self.num_negative_samples = config.num_negative_samples
        # With fewer words than negatives there is nothing to sample: the full softmax is exact and no slower.
        self.sampled = config.lm_softmax == "sampled" and config.num_negative_samples < num_words

    def logits(self, x: Tensor) -> Tensor:
        """Shape: (..., P) → (..., V)"""
        return F.linear(x, self.weight, self.bias)

    def loss(self, x: Tensor, labels: Tensor) -> Tensor:
        """Mean negative log-likelihood in nats, of the sampled softmax while training if so configured, else full.

        Args:
            x: top layer outputs of one direction.
            labels: word ids to predict; 0 (`<pad>`) and negative ids are ignored.

        Shape:
            x (..., P), labels (...) → (); 0 where every label is ignored
        """
        x, rows = self._counted(x, labels)
        if self.training and self.sampled:
            negatives = draw_negatives(len(self.weight), self.num_negative_samples)
            total = sampled_softmax_loss(x, rows, self.weight, self.bias, negatives).sum()
        else:
            total = self._negative_log_likelihood(x, rows).sum()
        return total / max(1, len(rows))

    def negative_log_likelihood(self, x: Tensor, labels: Tensor) -> Tensor:
        """By the full softmax, in nats, one number for every label that is not ignored, in their order.

        Shape:
            x (..., P), labels (...) → (number of counted labels,)
        """
        return self._negative_log_likelihood(*self._counted(x, labels))

    def _counted(self, x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        counted = labels > 0
        return x[counted], labels[counted] - 1  # rows leave <pad> out

    def _negative_log_likelihood(self, x: Tensor, rows: Tensor) -> Tensor:
        losses = [
            F.cross_entropy(self.logits(chunk), chunk_rows, reduction="none")
            for chunk, chunk_rows in zip(x.split(_POSITIONS_PER_CHUNK), rows.split(_POSITIONS_PER_CHUNK), strict=True)
        ]
        return torch.cat(losses)
