"""A pretraining run that starts from a language model instead of random values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.model_source import load_language_model
from hf_elmo.modeling_elmo import ElmoForPreTraining
from hf_elmo.pretraining.adagrad_start import load_accumulators
from hf_elmo.tokenization_elmo import ElmoTokenizer

# What only training reads; all else belongs to the weights.
_CHANGEABLE = ("dropout", "lm_softmax", "num_negative_samples")


class Start:
    """The language model a run starts from, and Adagrad's accumulators where they lie beside it.

    The LSTM state and the place in the text are no part of it: the streams begin at their beginning.

    Args:
        folder: of the model, with its softmax and tokenizer.
        vocabulary: the words of the run's corpus, which must be the model's.
        model_options: fields of ElmoConfig that are to differ.

    Attributes:
        config: the model's configuration with these fields.

    Raises:
        OSError, ValueError: no such model, one of another vocabulary, or a field that belongs to the weights.
    """

    def __init__(self, folder: str | Path, vocabulary: Sequence[str], model_options: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        self._model_options = dict(model_options)
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            if not (self.folder / name).is_file():
                raise FileNotFoundError(
                    f"init_from: got {str(folder)!r}, which holds no {name}; expected the folder of a language model."
                )
        stored = ElmoConfig.from_pretrained(self.folder)
        for name, value in model_options.items():
            if name not in _CHANGEABLE and _plain(getattr(stored, name, None)) != _plain(value):
                raise ValueError(
                    f"model: {name}: got {value!r}; expected {getattr(stored, name, None)!r}, as in {folder}."
                )
        fields = {name: getattr(stored, name) for name in ElmoConfig.__annotations__ if name != "model_type"}
        self.config = ElmoConfig(**{**fields, **model_options})
        self._check_vocabulary(vocabulary)

    def load_model(self) -> ElmoForPreTraining:
        """The model, ready to train.

        Raises:
            ValueError: its weights are damaged, belong to another configuration, or lack the softmax.
        """
        model, has_head = load_language_model(self.folder, **self._model_options)
        if not has_head:
            raise ValueError(
                f"init_from: {self.folder}: got a model without its softmax; expected one with it, from a training "
                "run, `hf-elmo publish --with-lm-head` or `hf-elmo convert` of a training checkpoint.  `hf-elmo adapt` "
                "starts a new softmax."
            )
        return model.train()

    def adagrad_sums(self, model: nn.Module) -> dict[nn.Parameter, Tensor] | None:
        """Adagrad's accumulators by the model's parameters, or None where the folder holds none.

        Raises:
            ValueError: see `load_accumulators`.
        """
        return load_accumulators(self.folder, model)

    def _check_vocabulary(self, vocabulary: Sequence[str]) -> None:
        tokenizer = ElmoTokenizer.from_pretrained(self.folder)
        own = tokenizer.convert_ids_to_tokens(list(range(1, tokenizer.vocab_size)))
        if own != list(vocabulary):
            row = next((row for row, pair in enumerate(zip(own, vocabulary, strict=False)) if pair[0] != pair[1]), None)
            got = f"{len(vocabulary)} words" if row is None else f"{vocabulary[row]!r} as word {row}"
            expected = f"{len(own)}" if row is None else f"{own[row]!r}"
            raise ValueError(
                f"init_from: got a corpus with {got}; expected {expected}, as in {self.folder}.  Prepare the text with "
                "the model's own words: `hf-elmo prepare --vocabulary vocab.txt`."
            )


def _plain(value: Any) -> Any:
    """Lists and tuples alike."""
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
