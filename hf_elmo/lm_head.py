"""The softmax over words that both directions of the biLM share (Peters et al. 2018, section 3.1)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.sampled_softmax import draw_negatives, sampled_softmax_loss

# Positions whose full softmax is held in memory at once, times the vocabulary.
_POSITIONS_PER_CHUNK = 512


def check_word_ids(name: str, ids: Tensor, *, shape: torch.Size, vocab_size: int) -> None:
    """Check the words that are to be predicted.

    Args:
        name: of the argument.
        ids: word ids; 0 and negative ones are ignored.
        shape: the shape that they should have.
        vocab_size: of the configuration, `<pad>` included.

    Raises:
        ValueError: another shape, or an id that no word has; the latter on the CPU only.
    """
    if ids.shape != shape:
        raise ValueError(f"{name}: got shape {tuple(ids.shape)}; expected {tuple(shape)}, a word id for every word.")
    if ids.device.type != "cpu" or torch.compiler.is_compiling():
        return  # to look at values would wait for the device in every step of a training; compiled, there are none yet
    wrong = ids[ids >= vocab_size]
    if len(wrong):
        raise ValueError(
            f"{name}: got {int(wrong[0])}; expected word ids below vocab_size = {vocab_size}, and 0 or less where no "
            "word is predicted.  Take them from the tokenizer that was saved with the model."
        )


class WordSoftmax(nn.Module):
    """A distribution over the words of the vocabulary file, in its order; `<pad>` is none of them.

    Attributes:
        training_softmax: `"sampled"`, `"full"` or `"adaptive"`: by which the loss is computed while training.
        sampled: whether that is an estimate.
        sparse_gradient: whether the parameters' gradients are sparse while training.
    """

    training_softmax: str
    sparse_gradient = False

    @property
    def sampled(self) -> bool:
        """Whether training's loss is that of a sample of the words."""
        return self.training_softmax == "sampled"

    def log_probabilities(self, x: Tensor) -> Tensor:
        """Exact log-probability of every word, in nats; word id w stands in column w - 1.

        Shape:
            x (..., P) → (..., V)
        """
        raise NotImplementedError

    def loss(self, x: Tensor, labels: Tensor) -> Tensor:
        """Mean negative log-likelihood in nats, of the sampled softmax while training if so configured, else exact.

        Args:
            x: top layer outputs of one direction.
            labels: word ids to predict; 0 (`<pad>`) and negative ids are ignored.

        Shape:
            x (..., P), labels (...) → (); 0 where every label is ignored
        """
        x, rows = _counted(x, labels)
        losses = self._training_losses(x, rows) if self.training else self._exact_losses(x, rows)
        return losses.sum() / max(1, len(rows))

    def negative_log_likelihood(self, x: Tensor, labels: Tensor) -> Tensor:
        """Exact, in nats, one number for every label that is not ignored, in their order.

        Shape:
            x (..., P), labels (...) → (number of counted labels,)
        """
        return self._exact_losses(*_counted(x, labels))

    def _training_losses(self, x: Tensor, rows: Tensor) -> Tensor:
        """(N, P), (N,) → (N,)"""
        return self._exact_losses(x, rows)

    def _exact_losses(self, x: Tensor, rows: Tensor) -> Tensor:
        """(N, P), (N,) → (N,)"""
        chunks = zip(x.split(_POSITIONS_PER_CHUNK), rows.split(_POSITIONS_PER_CHUNK), strict=True)
        return torch.cat([self._exact_losses_of_chunk(*chunk) for chunk in chunks])

    def _exact_losses_of_chunk(self, x: Tensor, rows: Tensor) -> Tensor:
        raise NotImplementedError


class LMHead(WordSoftmax):
    """One row and one bias per word.

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
        sampled = config.lm_softmax == "sampled" and config.num_negative_samples < num_words
        self.training_softmax = "sampled" if sampled else "full"

    def logits(self, x: Tensor) -> Tensor:
        """Shape: (..., P) → (..., V)"""
        return F.linear(x, self.weight, self.bias)

    def log_probabilities(self, x: Tensor) -> Tensor:
        """As in [`WordSoftmax`]."""
        return self.logits(x).log_softmax(dim=-1)

    def _training_losses(self, x: Tensor, rows: Tensor) -> Tensor:
        if not self.sampled:
            return self._exact_losses(x, rows)
        negatives = draw_negatives(len(self.weight), self.num_negative_samples)
        return sampled_softmax_loss(
            x, rows, self.weight, self.bias, negatives, sparse_gradient=self.sparse_gradient
        )  # (N,)

    def _exact_losses_of_chunk(self, x: Tensor, rows: Tensor) -> Tensor:
        return F.cross_entropy(self.logits(x), rows, reduction="none")


def _counted(x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Positions to predict a word at, (N, P), and the row of each word, (N,)."""
    counted = labels > 0
    return x[counted], labels[counted] - 1  # rows leave <pad> out
