"""The biattentive classification network of McCann et al. (2017), section 5.

One sentence attends to itself, a pair each to the other.
"""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hf_elmo.bidirectional_rnn import BidirectionalRNN
from hf_elmo.maxout import Maxout
from hf_elmo.pooling import masked_max, masked_mean, masked_softmax
from hf_elmo.task_model import ElmoVectors, beside


class BiattentiveEncoder(nn.Module):
    """One or two sentences to one vector.

    Args:
        input_size: width of what is read.
        beside_size: width of the mix beside what the encoder gives, or 0.
        hidden_size: width of each direction of the two biLSTMs, and of the layer before them.
        num_sentences: 1 or 2.
        dropout: probability, on what the first biLSTM gives.
    """

    def __init__(
        self, *, input_size: int, beside_size: int, hidden_size: int, num_sentences: int, dropout: float
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.projection = nn.Linear(input_size, hidden_size)
        self.encoder = BidirectionalRNN(nn.LSTM, input_size=hidden_size, hidden_size=hidden_size)
        width = self.encoder.output_size + beside_size
        self.integrators = nn.ModuleList(Integrator(width, hidden_size) for _ in range(num_sentences))
        self.output_size = num_sentences * 8 * hidden_size

    def forward(self, *sentences: ElmoVectors) -> Tensor:
        """Shape: one or two sentences of vectors (B, S, W) → (B, output_size)."""
        encoded = [self._encoded(sentence) for sentence in sentences]  # (B, S, W) each
        masks = [sentence.words for sentence in sentences]
        pooled = []
        for number, integrator in enumerate(self.integrators):
            other = len(sentences) - 1 - number
            pooled.append(integrator(encoded[number], encoded[other], masks[number], masks[other]))
        return torch.cat(pooled, dim=-1)

    def _encoded(self, sentence: ElmoVectors) -> Tensor:
        x = F.relu(self.projection(sentence.inputs))  # (B, S, hidden_size)
        x = F.dropout(self.encoder(x, sentence.words), self.dropout, self.training)  # (B, S, 2·hidden_size)
        return beside(x, sentence.outputs) * sentence.words.unsqueeze(-1)


class Integrator(nn.Module):
    """A sentence conditioned on another, read once more, and pooled in four ways.

    Args:
        width: of both sentences' vectors.
        hidden_size: width of each direction of the biLSTM.
    """

    def __init__(self, width: int, hidden_size: int) -> None:
        super().__init__()
        self.rnn = BidirectionalRNN(nn.LSTM, input_size=3 * width, hidden_size=hidden_size)
        self.attention = nn.Linear(self.rnn.output_size, 1, bias=False)

    def forward(self, x: Tensor, other: Tensor, mask: Tensor, other_mask: Tensor) -> Tensor:
        """Shape: x (B, S, W), other (B, R, W), mask (B, S), other_mask (B, R) → (B, 8·hidden_size)."""
        shares = masked_softmax(x @ other.mT, other_mask.unsqueeze(1))  # (B, S, R)
        context = shares @ other  # (B, S, W)
        x = self.rnn(torch.cat([x, x - context, x * context], dim=-1), mask)  # (B, S, 2·hidden_size)
        shares = masked_softmax(self.attention(x).squeeze(-1), mask)  # (B, S)
        attended = (shares.unsqueeze(1) @ x).squeeze(1)  # (B, 2·hidden_size)
        return torch.cat([masked_max(x, mask), masked_mean(x, mask), -masked_max(-x, mask), attended], dim=-1)


def maxout_classifier(input_size: int, *, hidden_size: int, num_labels: int, dropout: float) -> nn.Sequential:
    """Three maxout layers, each narrower."""
    sizes = [input_size, 4 * hidden_size, 2 * hidden_size, num_labels]
    return nn.Sequential(*(Maxout(a, b, dropout=dropout) for a, b in pairwise(sizes)))
