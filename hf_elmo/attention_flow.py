"""The question answering network of Clark & Gardner (2018): bidirectional attention flow, then self-attention."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hf_elmo.bidirectional_rnn import BidirectionalRNN
from hf_elmo.pooling import masked_softmax
from hf_elmo.task_model import ElmoVectors, beside


class AttentionFlow(nn.Module):
    r"""Scores for each word of a context to begin and to end the answer to a question.

    Args:
        input_size: width of what is read.
        beside_size: width of the mix beside what the shared biGRU gives, or 0.
        hidden_size: width of each direction of the biGRUs; the linear layers have twice that.
        dropout: probability, on what every biGRU and linear layer reads but the first, whose input ELMo's dropout met.
    """

    def __init__(self, *, input_size: int, beside_size: int, hidden_size: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.encoder = BidirectionalRNN(nn.GRU, input_size=input_size, hidden_size=hidden_size)
        encoded, width = self.encoder.output_size + beside_size, 2 * hidden_size
        self.question_attention = TrilinearScores(encoded)
        self.question_merge = nn.Linear(4 * encoded, width)
        self.self_encoder = BidirectionalRNN(nn.GRU, input_size=width, hidden_size=hidden_size)
        self.self_attention = TrilinearScores(width, score_x=False)
        self.self_merge = nn.Linear(3 * width, width)
        self.start_encoder = BidirectionalRNN(nn.GRU, input_size=width, hidden_size=hidden_size)
        self.start_scores = nn.Linear(width, 1, bias=False)
        self.end_encoder = BidirectionalRNN(nn.GRU, input_size=2 * width, hidden_size=hidden_size)
        self.end_scores = nn.Linear(width, 1, bias=False)

    def forward(self, question: ElmoVectors, context: ElmoVectors) -> tuple[Tensor, Tensor]:
        """Shape: question (B, R, W), context (B, S, W) → scores of the start (B, S) and of the end (B, S)."""
        x = self._question_aware(self._encoded(context), self._encoded(question), context.words, question.words)
        x = x + self._self_attended(x, context.words)  # (B, S, width)
        start = self.start_encoder(self._dropped(x), context.words)  # (B, S, width)
        end = self.end_encoder(self._dropped(torch.cat([x, start], dim=-1)), context.words)  # (B, S, width)
        return self.start_scores(self._dropped(start)).squeeze(-1), self.end_scores(self._dropped(end)).squeeze(-1)

    def _encoded(self, sentence: ElmoVectors) -> Tensor:
        return self._dropped(beside(self.encoder(sentence.inputs, sentence.words), sentence.outputs))

    def _question_aware(self, x: Tensor, question: Tensor, mask: Tensor, question_mask: Tensor) -> Tensor:
        """Attention in both directions (section 3, "Attention"): (B, S, W), (B, R, W) → (B, S, width)."""
        scores = self.question_attention(x, question)  # (B, S, R)
        to_question = masked_softmax(scores, question_mask.unsqueeze(1)) @ question  # (B, S, W)
        best = scores.masked_fill(~question_mask.unsqueeze(1), torch.finfo(scores.dtype).min).amax(dim=2)  # (B, S)
        to_context = masked_softmax(best, mask).unsqueeze(1) @ x  # (B, 1, W)
        merged = torch.cat([x, to_question, x * to_question, to_context * to_question], dim=-1)
        return self._dropped(F.relu(self.question_merge(merged)))

    def _self_attended(self, x: Tensor, mask: Tensor) -> Tensor:
        """Each word of the context and all others: (B, S, width) → (B, S, width)."""
        x = self._dropped(self.self_encoder(x, mask))
        others = mask.unsqueeze(1) & ~torch.eye(x.shape[1], dtype=torch.bool, device=x.device)  # (B, S, S)
        attended = masked_softmax(self.self_attention(x, x), others) @ x  # (B, S, width)
        return F.relu(self.self_merge(torch.cat([x, attended, x * attended], dim=-1)))

    def _dropped(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)


class TrilinearScores(nn.Module):
    r"""\(a_{ij} = w_1 \cdot x_i + w_2 \cdot y_j + w_3 \cdot (x_i ∘ y_j)\).

    Args:
        width: of x and y.
        score_x: whether \(w_1\) is there.  A softmax over j does not see it.
    """

    def __init__(self, width: int, *, score_x: bool = True) -> None:
        super().__init__()
        self.of_x = nn.Linear(width, 1, bias=False) if score_x else None
        self.of_y = nn.Linear(width, 1, bias=False)
        self.of_both = nn.Linear(width, 1, bias=False)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Shape: x (B, S, W), y (B, R, W) → (B, S, R)."""
        scores = self.of_y(y).mT + (x * self.of_both.weight) @ y.mT  # (B, S, R)
        return scores if self.of_x is None else scores + self.of_x(x)
