"""A softmax over words whose rare ones cost less (Grave et al. 2017, https://arxiv.org/abs/1609.04309)."""

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

    def _training_losses(self, x: Tensor, rows: Tensor) -> Tensor:
        # Processes that train together expect a gradient of every parameter; of a cluster that has no word in this
        # batch it is zero.
        nothing = sum(cluster(x[:0]).sum() for cluster in self.adaptive.tail)
        return self._exact_losses(x, rows) + nothing

    def _exact_losses_of_chunk(self, x: Tensor, rows: Tensor) -> Tensor:
        return -self.adaptive(x, rows).output
