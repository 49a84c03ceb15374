"""Classifying sentences and pairs of sentences: sentiment, topics, entailment, similarity."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple

from hf_elmo.biattention import BiattentiveEncoder, maxout_classifier
from hf_elmo.bidirectional_rnn import BidirectionalRNN
from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.modeling_elmo import words_of
from hf_elmo.pooling import masked_max, masked_mean
from hf_elmo.sentence_boundaries import put_back_pair, split_pairs
from hf_elmo.task_model import ElmoTaskModel, ElmoVectors, beside, check_labels


class ElmoForSequenceClassification(ElmoTaskModel):
    r"""A class, several, or a number for every sentence or pair.

    A linear layer on the mean or the maximum over the words of ELMo, or of biLSTM layers on it; or the biattentive
    classification network.  Two pooled sentences u, v are joined as \([u; v; |u - v|; u ∘ v]\).

    Args:
        config: `num_labels`, `problem_type`, `pooling`, `pool_boundaries`, `sentence_pairs`, `classifier_num_layers`,
            `classifier_lstm_size` and `classifier_dropout` are read here.
    """

    def __init__(self, config: ElmoConfig) -> None:
        biattentive = config.pooling == "biattention"
        super().__init__(config, has_network=biattentive or config.classifier_num_layers > 0)
        self.encoder = self._biattentive_encoder() if biattentive else self._recurrent_encoder()
        if isinstance(self.encoder, BiattentiveEncoder):
            self.classifier: nn.Module = maxout_classifier(
                self.encoder.output_size,
                hidden_size=config.classifier_lstm_size,
                num_labels=self.num_labels,
                dropout=config.classifier_dropout,
            )
        else:
            width = (self.input_size if self.encoder is None else self.encoder.output_size) + self.beside_size
            self.classifier = nn.Linear(4 * width if config.sentence_pairs else width, self.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        character_ids: Tensor,
        attention_mask: Tensor | None = None,
        input_ids: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> SequenceClassifierOutput:
        """Score the classes of every row.

        Args:
            character_ids, attention_mask, input_ids: as in [`ElmoModel.forward`].  With `sentence_pairs` each row is
                a pair; the biLM and the network read its sentences apart.
            labels: class numbers; numbers for a regression; 0 and 1 for each class of a multi-label problem.  As in
                transformers, `config.problem_type` is chosen by their type and number where it is None.

        Shape:
            labels (B,), or (B, K) where a row has K numbers or may have several classes

        Raises:
            ValueError: labels that are no classes; a row that is no pair where pairs are classified.
        """
        words = words_of(character_ids, attention_mask)  # (B, T)
        if self.config.sentence_pairs:
            pair = split_pairs(character_ids, words)
            sentences = [self._read_for_pooling(part.character_ids, part.mask, **kwargs) for part in pair]
            hidden_states = put_back_pair(pair, [s.hidden_states for s in sentences], words.shape[1])
        else:
            sentences = [self._read_for_pooling(character_ids, words, **kwargs)]
            hidden_states = sentences[0].hidden_states
        logits = self.classifier(self._joined(sentences))  # (B, K)
        loss = None
        if labels is not None:
            labels = self._checked(labels, logits)
            loss = self.with_penalty(self.loss_function(labels=labels, pooled_logits=logits, config=self.config))
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=hidden_states)

    def _read_for_pooling(
        self, character_ids: Tensor, words: Tensor, **kwargs: Unpack[TransformersKwargs]
    ) -> ElmoVectors:
        vectors = self.read(character_ids, words, **kwargs)
        return vectors._replace(words=words) if self.config.pool_boundaries else vectors

    def _checked(self, labels: Tensor, logits: Tensor) -> Tensor:
        """The labels as the loss takes them: integers are numbers, too, where there are no class numbers."""
        problem: str | None = self.config.problem_type
        if problem is None:  # as in transformers
            class_numbers = labels.dtype in (torch.long, torch.int)
            several = "single_label_classification" if class_numbers else "multi_label_classification"
            problem = "regression" if self.num_labels == 1 else several
        if problem == "single_label_classification":
            if labels.dim() == 2 and labels.shape == logits.shape:
                raise ValueError(
                    f"labels: got shape {tuple(labels.shape)}; expected {tuple(logits.shape[:1])}, a class number for "
                    "every row.  Where a row may have several classes, set config.problem_type to "
                    "'multi_label_classification'."
                )
            check_labels("labels", labels, shape=logits.shape[:1], count=self.num_labels)
            return labels
        if problem == "multi_label_classification":
            _check_shape(labels, logits.shape, "0 or 1 for every class of a row")
            _check_zeros_and_ones(labels)
        elif self.num_labels > 1 or labels.dim() != 1:
            _check_shape(labels, logits.shape, "the numbers of every row")
        else:
            _check_shape(labels, logits.shape[:1], "a number for every row")
        return labels if labels.is_floating_point() else labels.to(logits.dtype)

    def _joined(self, sentences: list[ElmoVectors]) -> Tensor:
        """(B, width of the classifier's input)."""
        if isinstance(self.encoder, BiattentiveEncoder):
            return self.encoder(*sentences)
        pool = masked_max if self.config.pooling == "max" else masked_mean
        pooled = [pool(self._encoded(sentence), sentence.words) for sentence in sentences]  # (B, W) each
        if len(pooled) == 1:
            return pooled[0]
        first, second = pooled
        return torch.cat([first, second, (first - second).abs(), first * second], dim=-1)

    def _encoded(self, sentence: ElmoVectors) -> Tensor:
        """(B, S, W)."""
        if self.encoder is None:
            return sentence.inputs
        x = F.dropout(self.encoder(sentence.inputs, sentence.words), self.config.classifier_dropout, self.training)
        return beside(x, sentence.outputs)

    def _biattentive_encoder(self) -> BiattentiveEncoder:
        return BiattentiveEncoder(
            input_size=self.input_size,
            beside_size=self.beside_size,
            hidden_size=self.config.classifier_lstm_size,
            num_sentences=2 if self.config.sentence_pairs else 1,
            dropout=self.config.classifier_dropout,
        )

    def _recurrent_encoder(self) -> BidirectionalRNN | None:
        if not self.config.classifier_num_layers:
            return None
        return BidirectionalRNN(
            nn.LSTM,
            input_size=self.input_size,
            hidden_size=self.config.classifier_lstm_size,
            num_layers=self.config.classifier_num_layers,
            dropout=self.config.classifier_dropout,
        )


def _check_zeros_and_ones(labels: Tensor) -> None:
    if labels.is_floating_point() or torch.compiler.is_compiling():  # shares, or values that are not known yet
        return
    wrong = labels[(labels != 0) & (labels != 1)]
    if len(wrong):
        raise ValueError(f"labels: got {int(wrong[0])}; expected 0 or 1 for every class of a row.")


def _check_shape(labels: Tensor, shape: torch.Size, what: str) -> None:
    if labels.shape != shape:
        raise ValueError(f"labels: got shape {tuple(labels.shape)}; expected {tuple(shape)}, {what}.")
