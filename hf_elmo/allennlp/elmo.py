"""AllenNLP's `Elmo`: n scalar mixes of one pass of the biLM."""

import warnings
from collections.abc import Sequence
from os import PathLike
from typing import Any

from torch import Tensor, nn

from hf_elmo.allennlp.bilm import ElmoBiLm
from hf_elmo.allennlp.inputs import check_integer_tensor, check_word_ids
from hf_elmo.allennlp.scalar_mix import ScalarMix
from hf_elmo.allennlp.sentence_boundaries import remove_sentence_boundaries


class Elmo(nn.Module):
    """ELMo representations as a task model reads them (Peters et al. 2018, section 3), with AllenNLP's arguments.

    The biLM is frozen unless asked otherwise; each mix is trained. As in every torch module, dropout acts until
    `.eval()` is called.

    Args:
        options_file: options.json of the original's weights, a path or an http(s) address. Without a `weight_file`: the
            folder or Hub id of a model of this package, or None for the model that ships with it.
        weight_file: weights.hdf5, a path or an address.
        num_output_representations: how many mixes, each with weights of its own.
        requires_grad: whether the biLM is trained.
        do_layer_norm: normalise the layers by the reference's statistics, which are those of the whole batch, with the
            boundaries. A sentence then depends on its batch mates.
        dropout: probability, on each representation, in training mode.
        vocab_to_cache: words by word id, the first one padding, whose token layer is computed once; `forward` is then
            given word ids too.
        keep_sentence_boundaries: leave `<S>` and `</S>` in the result.
        scalar_mix_parameters: fixed weights of the layers before the softmax, for every mix; then neither they nor
            gamma are trained.
        module: a biLM to use instead of files: an [`ElmoBiLm`], or any module with `num_layers` whose `forward(inputs,
            word_inputs)` returns `activations` and `mask`. What it caches, trains and carries over is its own matter.
        stateful: carry the LSTM state from batch to batch as the reference does; the default is to begin each sentence
            anew, so that its vectors depend on nothing else.

    Raises:
        ImportError: h5py, which reads weights.hdf5, is not installed.
        OSError, ValueError: a file that is not there or not what it should be; an argument out of range.
    """

    def __init__(
        self,
        options_file: str | PathLike[str] | None = None,
        weight_file: str | PathLike[str] | None = None,
        num_output_representations: int = 1,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: Sequence[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        module: nn.Module | None = None,
        *,
        stateful: bool = False,
    ) -> None:
        super().__init__()
        if num_output_representations < 1:
            raise ValueError(f"num_output_representations: got {num_output_representations!r}; expected at least 1.")
        if module is None:
            module = ElmoBiLm(options_file, weight_file, requires_grad, vocab_to_cache, stateful=stateful)
        elif options_file is not None or weight_file is not None or stateful:
            raise ValueError(
                "module: got a biLM together with options_file, weight_file or stateful; expected None, None and "
                "False, since the module brings its own."
            )
        self._elmo_lstm = module
        self._has_cached_vocab = vocab_to_cache is not None or getattr(module, "has_cached_vocab", False)
        self._keep_sentence_boundaries = keep_sentence_boundaries
        self._dropout = nn.Dropout(p=dropout)
        self._num_mixes = num_output_representations
        num_layers: Any = module.num_layers
        for k in range(num_output_representations):
            mix = ScalarMix(num_layers, do_layer_norm, scalar_mix_parameters, trainable=scalar_mix_parameters is None)
            self.add_module(f"scalar_mix_{k}", mix)

    def get_output_dim(self) -> int:
        """Width of a representation, 2P."""
        bilm: Any = self._elmo_lstm
        return int(bilm.get_output_dim())

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """The representations of a batch of sentences.

        Args:
            inputs: character ids as `batch_to_ids` returns them; a row of zeros is no word.
            word_inputs: word ids, the words' places in `vocab_to_cache`; 0 is no word.

        Returns:
            `"elmo_representations"`: the mixes, 0 at padding; `"mask"`: True at words.

        Shape:
            inputs (B, ..., T, C), word_inputs (B, ..., T) → representations (B, ..., T, 2P) each, mask (B, ..., T);
            T + 2 with the boundaries

        Raises:
            TypeError, ValueError: an argument of another type, shape or range.
        """
        check_integer_tensor("inputs", inputs, least_dimensions=3, length="characters")
        outer = inputs.shape[:-2]
        word_inputs = self._checked(word_inputs, inputs)
        rows = inputs.flatten(0, -3)  # (B', T, C)
        output = self._elmo_lstm(rows, None if word_inputs is None else word_inputs.flatten(0, -2))
        layers, mask = output["activations"], output["mask"]  # (B', T + 2, 2P) each, (B', T + 2)
        mixed = [getattr(self, f"scalar_mix_{k}")(layers, mask) for k in range(self._num_mixes)]
        if not self._keep_sentence_boundaries:
            stripped = [remove_sentence_boundaries(representation, mask) for representation in mixed]
            mixed, mask = [representation for representation, _ in stripped], stripped[0][1]
        return {
            "elmo_representations": [self._dropout(x).reshape(*outer, *x.shape[1:]) for x in mixed],
            "mask": mask.reshape(*outer, mask.shape[-1]),
        }

    def _checked(self, word_inputs: Tensor | None, inputs: Tensor) -> Tensor | None:
        if word_inputs is None:
            return None
        if not self._has_cached_vocab:
            warnings.warn("word_inputs: ignored, since there is no vocab_to_cache.", stacklevel=3)
            return None
        check_word_ids(word_inputs, inputs)
        return word_inputs
