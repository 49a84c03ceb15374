"""The biLM that a drop-in `Elmo` reads: character ids without boundaries → all layers with boundaries."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

import torch
from torch import Tensor, nn
from transformers.utils import logging

from hf_elmo.allennlp.cached_character_cnn import CachedCharacterCNN
from hf_elmo.allennlp.elmo_lstm import ElmoLstm
from hf_elmo.allennlp.inputs import check_character_ids, check_word_ids
from hf_elmo.allennlp.sentence_boundaries import add_sentence_boundaries
from hf_elmo.allennlp.state_dict_names import take_allennlp_names
from hf_elmo.allennlp.weight_files import load_bilm

logger = logging.get_logger(__name__)


class ElmoBiLm(nn.Module):
    """The pretrained biLM by itself, AllenNLP's `_ElmoBiLm`; several `Elmo`s may share one (`module=`).

    Args:
        options_file, weight_file: as in [`Elmo`].
        requires_grad: whether the biLM is trained.
        vocab_to_cache: words by word id, the first one padding, whose token layer is computed once.
        stateful: carry the LSTM state from batch to batch, see [`ElmoLstm`].

    Attributes:
        num_layers: L + 1.
    """

    def __init__(
        self,
        options_file: str | PathLike[str] | None = None,
        weight_file: str | PathLike[str] | None = None,
        requires_grad: bool = False,
        vocab_to_cache: Sequence[str] | None = None,
        *,
        stateful: bool = False,
    ) -> None:
        super().__init__()
        model = load_bilm(options_file, weight_file)
        model.requires_grad_(requires_grad)
        self._requires_grad = requires_grad
        self._elmo_lstm = ElmoLstm(model, stateful=stateful)
        self.num_layers = model.config.num_hidden_layers + 1
        self.register_load_state_dict_pre_hook(_take_allennlp_names)
        if vocab_to_cache:
            self.create_cached_cnn_embeddings(vocab_to_cache)

    def get_output_dim(self) -> int:
        """2P, the width of every layer."""
        return self._elmo_lstm.model.config.hidden_size

    @property
    def has_cached_vocab(self) -> bool:
        """Whether word ids are read."""
        return isinstance(self._elmo_lstm.model.character_cnn, CachedCharacterCNN)

    def create_cached_cnn_embeddings(self, tokens: Sequence[str]) -> None:
        """Compute the token layer of these words once; later calls name them by word id, their place in the list.

        Raises:
            TypeError, ValueError: a word that is no string, or has a lone surrogate.
        """
        if self._requires_grad:
            logger.warning(
                "vocab_to_cache: the biLM is trained (requires_grad=True), and the cached words do not follow its "
                "character CNN; leave one of the two out."
            )
        model = self._elmo_lstm.model
        model.character_cnn = CachedCharacterCNN(model.config, model.character_cnn, tokens)
        model.character_cnn.requires_grad_(self._requires_grad)

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """All layers of a batch of sentences.

        Args:
            inputs: character ids without boundaries; a row of zeros is no word.
            word_inputs: word ids, read where a vocabulary is cached; 0 is no word.

        Returns:
            `"activations"`: the L + 1 layers, `"mask"`: bool; both with the boundaries, `<S>` at 0 and `</S>` behind
            each sentence's last word.

        Shape:
            inputs (B, T, C), word_inputs (B, T) → activations (B, T + 2, 2P) each, mask (B, T + 2)

        Raises:
            TypeError, ValueError: an argument of another type, shape or range.
        """
        model = self._elmo_lstm.model
        check_character_ids(inputs, model.config.max_characters_per_word)
        mask = (inputs > 0).any(dim=-1)  # (B, T)
        if word_inputs is not None and isinstance(model.character_cnn, CachedCharacterCNN):
            check_word_ids(word_inputs, inputs)
            mask = word_inputs > 0
            inputs = model.character_cnn.refer_to_words(inputs, word_inputs)
        inputs, mask = add_sentence_boundaries(inputs, mask)
        return {"activations": list(self._elmo_lstm(inputs, mask)), "mask": mask}


def _take_allennlp_names(module: nn.Module, state_dict: dict[str, torch.Tensor], prefix: str, *_: Any) -> None:
    assert isinstance(module, ElmoBiLm)
    take_allennlp_names(state_dict, prefix, module._elmo_lstm.model.config)
