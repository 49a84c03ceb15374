"""Tagging words: part of speech, named entities, semantic roles."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn
from transformers.processing_utils import Unpack
from transformers.utils import ModelOutput, TransformersKwargs, can_return_tuple

from hf_elmo.bidirectional_rnn import BidirectionalRNN
from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.crf import CRF, IGNORED
from hf_elmo.modeling_elmo import words_of
from hf_elmo.task_model import ElmoTaskModel, beside, check_labels


@dataclass
class ElmoTokenClassifierOutput(ModelOutput):
    """Output of [`ElmoForTokenClassification`].

    Attributes:
        loss: () mean over the labelled words, or, of a CRF, over the sentences with a labelled word, in nats.
        logits: (B, T, K) scores of the tags; of a CRF the log-probability of each tag given the whole sentence.
        predictions: (B, T) the best tags, of a CRF the best sequence (Viterbi); -100 at boundaries and padding.
        hidden_states: on request the biLM's layers.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    predictions: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None


class ElmoForTokenClassification(ElmoTaskModel):
    """A tag for every word: a linear layer on ELMo, or the paper's biLSTM with a CRF (Peters et al. 2018, section 4).

    Args:
        config: `num_labels`, `classifier_num_layers`, `classifier_lstm_size`, `classifier_dropout` and `use_crf` are
            read here.
    """

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config, has_network=config.classifier_num_layers > 0)
        self.encoder = None
        width = self.input_size
        if config.classifier_num_layers:
            self.encoder = BidirectionalRNN(
                nn.LSTM,
                input_size=width,
                hidden_size=config.classifier_lstm_size,
                num_layers=config.classifier_num_layers,
                dropout=config.classifier_dropout,
            )
            width = self.encoder.output_size
        self.classifier = nn.Linear(width + self.beside_size, self.num_labels)
        self.crf = CRF(self.num_labels) if config.use_crf else None
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        character_ids: Tensor,
        attention_mask: Tensor | None = None,
        input_ids: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> ElmoTokenClassifierOutput:
        """Score the tags of every word.

        Args:
            character_ids, attention_mask, input_ids: as in [`ElmoModel.forward`].
            labels: tags; -100 where there is none.  A CRF sums over the tags that such a word may have.

        Shape:
            labels (B, T)

        Raises:
            ValueError: labels of another shape, or that are no tags.
        """
        words = words_of(character_ids, attention_mask)  # (B, T)
        vectors = self.read(character_ids, words, **kwargs)
        x = vectors.inputs
        if self.encoder is not None:
            x = self.encoder(x, vectors.words)  # (B, T, 2·classifier_lstm_size)
            x = F.dropout(x, self.config.classifier_dropout, self.training)
        scores = self.classifier(beside(x, vectors.outputs))  # (B, T, K)
        if labels is not None:
            check_labels("labels", labels, shape=words.shape, count=self.num_labels)
        if self.crf is None:
            logits, predictions = scores, scores.argmax(dim=-1).masked_fill(~vectors.words, IGNORED)
        else:
            logits = self.crf.log_marginals(scores, vectors.words)
            predictions = self.crf.decode(scores, vectors.words)
        return ElmoTokenClassifierOutput(
            loss=None if labels is None else self.with_penalty(self._loss(scores, labels, vectors.words)),
            logits=logits,
            predictions=predictions,
            hidden_states=vectors.hidden_states,
        )

    def _loss(self, scores: Tensor, labels: Tensor, words: Tensor) -> Tensor:
        """Mean negative log-likelihood; 0 where nothing is labelled."""
        if self.crf is None:
            summed = F.cross_entropy(scores.flatten(0, 1).float(), labels.flatten(), reduction="sum")
            return summed / (labels != IGNORED).sum().clamp(min=1)
        labels = labels.masked_fill(~words, IGNORED)
        labelled = (labels != IGNORED).any(dim=1)  # (B,)
        likelihoods = self.crf.log_likelihood(scores, labels, words) * labelled  # (B,)
        return -likelihoods.sum() / labelled.sum().clamp(min=1)
