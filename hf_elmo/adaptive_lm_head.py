"""A softmax over words whose rare ones cost less (Grave et al. 2017, https://arxiv.org/abs/1609.04309)."""

import torch
from torch import Tensor, nn

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.lm_head import WordSoftmax


class AdaptiveLMHead(WordSoftmax):
    r"""Frequent words have full rows; the others are in clusters, each behind one row and a narrower projection.

    .. math::
        p(w) = p(w \mid x) \text{ before the first cutoff}, \quad
        p(w) = p(\text{cluster} \mid x) \, p(w \mid \text{cluster}, x) \text{ after it}

    This is a distribution, so that its log-likelihood is exact in training and in evaluation.

    Args:
        config: `vocab_size`, `projection_size`, `adaptive_cutoffs` and `adaptive_div_value` are read.
    """

    training_softmax = "adaptive"

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        assert config.adaptive_cutoffs is not None
        self.adaptive = nn.AdaptiveLogSoftmaxWithLoss(
            config.projection_size,
            config.vocab_size - 1,
            list(config.adaptive_cutoffs),
            div_value=config.adaptive_div_value,
            head_bias=True,
        )

    def log_probabilities(self, x: Tensor) -> Tensor:
        """As in [`WordSoftmax`]."""
        log_probabilities = self.adaptive.log_prob(x.reshape(-1, x.shape[-1]))  # (N, V)
        return log_probabilities.reshape(*x.shape[:-1], -1)

    def _exact_losses_of_chunk(self, x: Tensor, rows: Tensor) -> Tensor:
        # Not by the module's own loss, which fails in mixed precision and gives no gradient to a cluster that has no
        # word in the batch, where processes that train together wait for one.
        cutoffs = rows.new_tensor(self.adaptive.cutoffs[:-1])
        cluster_of_row = torch.bucketize(rows, cutoffs, right=True)  # (N,) 0 for frequent words
        frequent = self.adaptive.shortlist_size
        column = torch.where(cluster_of_row == 0, rows, frequent - 1 + cluster_of_row)  # (N,)
        first = self.adaptive.head(x).log_softmax(dim=-1, dtype=x.dtype)  # (N, frequent + clusters)
        log_probabilities = first.gather(1, column.unsqueeze(1)).squeeze(1)  # (N,)
        for number, cluster in enumerate(self.adaptive.tail):
            [here] = (cluster_of_row == 1 + number).nonzero(as_tuple=True)  # (n,)
            words = cluster(x[here]).log_softmax(dim=-1, dtype=x.dtype)  # (n, words of the cluster)
            word = (rows[here] - cutoffs[number]).unsqueeze(1)
            log_probabilities = log_probabilities.index_add(0, here, words.gather(1, word).squeeze(1))
        return -log_probabilities
