"""Answering a question with a span of a context."""

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.modeling_outputs import QuestionAnsweringModelOutput
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple

from hf_elmo.attention_flow import AttentionFlow
from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.crf import IGNORED
from hf_elmo.modeling_elmo import words_of
from hf_elmo.sentence_boundaries import put_back_pair, split_pairs
from hf_elmo.task_model import ElmoTaskModel


class ElmoForQuestionAnswering(ElmoTaskModel):
    """The first and the last word of an answer: the paper's network for SQuAD (Peters et al. 2018, section 4).

    Args:
        config: `classifier_lstm_size` and `classifier_dropout` are read here.  The paper's sizes are 90 and 0.2, and
            `elmo_placement` is `"both"` there.
    """

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config, has_network=True)
        self.network = AttentionFlow(
            input_size=self.input_size,
            beside_size=self.beside_size,
            hidden_size=config.classifier_lstm_size,
            dropout=config.classifier_dropout,
        )
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        character_ids: Tensor,
        attention_mask: Tensor | None = None,
        input_ids: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> QuestionAnsweringModelOutput:
        """Score every word of the context as the answer's first and last.

        Args:
            character_ids, attention_mask, input_ids: as in [`ElmoModel.forward`]; each row is a question and a context,
                as `tokenizer(question, context)` returns them.
            start_positions, end_positions: of the answer's first and last word, counted from the row's begin.  One
                that is not at a word of the context, as of an answer that was cut off, is ignored.

        Shape:
            start_positions, end_positions (B,) → start_logits, end_logits (B, T), where no word of the context stands
            the smallest number

        Raises:
            ValueError: a row that is no pair; start without end or the reverse.
        """
        if (start_positions is None) != (end_positions is None):
            raise ValueError("start_positions: expected together with end_positions; got one without the other.")
        words = words_of(character_ids, attention_mask)  # (B, T)
        pair = split_pairs(character_ids, words)
        question, context = (self.read(part.character_ids, part.mask, **kwargs) for part in pair)
        scores = torch.stack(self.network(question, context), dim=-1)  # (B, S, 2)
        length = words.shape[1]
        answerable = pair[1].put_back(context.words.unsqueeze(-1).to(scores.dtype), length) > 0  # (B, T, 1)
        logits = pair[1].put_back(scores, length).masked_fill(~answerable, torch.finfo(scores.dtype).min)  # (B, T, 2)
        loss = None
        if start_positions is not None and end_positions is not None:
            losses = [
                _mean_loss(logits[..., number], positions, answerable.squeeze(-1))
                for number, positions in enumerate((start_positions, end_positions))
            ]
            loss = self.with_penalty((losses[0] + losses[1]) / 2)
        return QuestionAnsweringModelOutput(
            loss=loss,
            start_logits=logits[..., 0],
            end_logits=logits[..., 1],
            hidden_states=put_back_pair(pair, [question.hidden_states, context.hidden_states], length),
        )


def _mean_loss(logits: Tensor, positions: Tensor, answerable: Tensor) -> Tensor:
    """Mean negative log-likelihood of the positions that are at a word of the context; 0 where none is.

    Shape:
        logits (B, T), positions (B,), answerable (B, T) bool → ()
    """
    if positions.shape != logits.shape[:1]:
        raise ValueError(
            f"start_positions, end_positions: got shape {tuple(positions.shape)}; expected ({len(logits)},)."
        )
    inside = (positions >= 0) & (positions < logits.shape[1])
    at = positions.clamp(0, logits.shape[1] - 1).unsqueeze(1)  # (B, 1)
    valid = inside & answerable.gather(1, at).squeeze(1)
    summed = F.cross_entropy(logits.float(), positions.masked_fill(~valid, IGNORED), reduction="sum")
    return summed / valid.sum().clamp(min=1)
