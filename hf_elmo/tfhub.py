"""ELMo as TensorFlow Hub's module google/elmo offered it: sentences in, a dictionary of tensors out; here of torch."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hf_elmo.model_source import load_model
from hf_elmo.modeling_elmo import ElmoModel
from hf_elmo.tokenization_elmo import ElmoTokenizer

Source = str | PathLike[str] | ElmoModel | None
SIGNATURES = ("default", "tokens")


class Module(nn.Module):
    """Raw or tokenised sentences → layers, mix and mean, in the manner of `hub.Module`.

    Unlike the original it begins each sentence anew, so that a sentence's vectors depend on nothing else.

    Args:
        spec: the folder or Hub id of a model, None for the model that ships with the package, or an [`ElmoModel`].
        trainable: train the mix: its weights and gamma, four numbers for two biLSTM layers. The biLM stays frozen.

    Raises:
        OSError, ValueError: as [`hf_elmo.model_source.load_model`]; an address of TensorFlow Hub.
    """

    def __init__(self, spec: Source = None, trainable: bool = False) -> None:
        super().__init__()
        self.elmo = spec if isinstance(spec, ElmoModel) else _load(spec)
        if self.elmo.scalar_mix is None:
            raise ValueError("spec: got a model without a scalar mix; expected one made with add_scalar_mix=True.")
        self.elmo.requires_grad_(False)
        self.elmo.scalar_mix.requires_grad_(trainable)
        self.tokenizer = ElmoTokenizer(max_characters_per_word=self.elmo.config.max_characters_per_word)

    @property
    def signatures(self) -> dict[str, Callable[..., dict[str, Tensor]]]:
        """The two signatures as functions, as `hub.load(...)` offered them: `default(text)` and `tokens(tokens,
        sequence_len)`.
        """
        return {"default": self._default, "tokens": self._tokens}

    def forward(
        self, inputs: Sequence[str] | Mapping[str, Any], signature: str = "default", as_dict: bool = False
    ) -> dict[str, Tensor] | Tensor:
        """Compute everything for a batch of sentences.

        Args:
            inputs: for the signature `"default"` the sentences, which are split at spaces and nowhere else, also as
                `{"text": sentences}`; for `"tokens"` `{"tokens": words, "sequence_len": lengths}`, where what stands
                behind a sentence's length is padding.
            signature: `"default"` or `"tokens"`.
            as_dict: return all outputs; otherwise only `"default"`.

        Returns:
            `word_emb`: the token layer; `lstm_outputs1`, `lstm_outputs2`, ...: the biLSTM layers; `elmo`: their mix;
            `default`: the mean of `elmo` over a sentence's words, 0 without words; `sequence_len`: how many words.

        Shape:
            word_emb (B, T, P), lstm_outputs1 and elmo (B, T, 2P), 0 at padding; default (B, 2P), sequence_len (B,).
            T is the number of words of the longest sentence, or the width of `tokens`.

        Raises:
            TypeError, ValueError: inputs of another form, or a word without a spelling.
        """
        if signature == "default":
            text = _entries(inputs, ("text",))[0] if isinstance(inputs, Mapping) else inputs
            outputs = self._default(text)
        elif signature == "tokens":
            outputs = self._tokens(*_entries(inputs, ("tokens", "sequence_len")))
        else:
            raise ValueError(f"signature: got {signature!r}; expected one of {', '.join(map(repr, SIGNATURES))}.")
        return outputs if as_dict else outputs["default"]

    def _default(self, text: Sequence[str]) -> dict[str, Tensor]:
        if isinstance(text, str | bytes):
            raise TypeError(f"text: got the string {text!r}; expected a list of sentences.")
        for number, sentence in enumerate(text):
            if not isinstance(sentence, str):
                raise TypeError(f"text: sentence {number} is {type(sentence).__name__}; expected a string.")
        sentences = [[word for word in sentence.split(" ") if word] for sentence in text]
        return self._outputs(sentences, width=max(map(len, sentences), default=0))

    def _tokens(self, tokens: Sequence[Sequence[str]], sequence_len: Sequence[int] | Tensor) -> dict[str, Tensor]:
        lengths = [int(length) for length in sequence_len]
        if len(lengths) != len(tokens):
            raise ValueError(
                f"sequence_len: got {len(lengths)} lengths; expected {len(tokens)}, one for each sentence."
            )
        for number, (words, length) in enumerate(zip(tokens, lengths, strict=True)):
            if isinstance(words, str | bytes):
                raise TypeError(f"tokens: sentence {number} is the string {words!r}; expected a list of words.")
            if not 0 <= length <= len(words):
                raise ValueError(
                    f"sequence_len: got {length} for sentence {number}; expected 0 to {len(words)}, the number of its "
                    "words with padding."
                )
        sentences = [list(words[:length]) for words, length in zip(tokens, lengths, strict=True)]
        return self._outputs(sentences, width=max(map(len, tokens), default=0))

    def _outputs(self, sentences: list[list[str]], *, width: int) -> dict[str, Tensor]:
        if not sentences:
            raise ValueError("inputs: got no sentence; expected at least one.")
        batch = self.tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
        batch = batch.to(self.elmo.device)
        output = self.elmo(batch["character_ids"], batch["attention_mask"], output_hidden_states=True, return_dict=True)
        lengths = batch["attention_mask"].sum(dim=1) - 2  # (B,) without the boundaries
        mask = torch.arange(width, device=lengths.device) < lengths.unsqueeze(1)  # (B, T)
        token_layer, *layers = (_words(layer, mask) for layer in output.hidden_states)  # (B, T, 2P) each
        elmo = _words(output.last_hidden_state, mask)  # (B, T, 2P)
        return {
            "word_emb": token_layer[..., : self.elmo.config.projection_size],
            **{f"lstm_outputs{k}": layer for k, layer in enumerate(layers, start=1)},
            "elmo": elmo,
            "default": elmo.sum(dim=1) / lengths.clamp(min=1).unsqueeze(1),
            "sequence_len": lengths,
        }


def load(handle: Source = None) -> Module:
    """The module in evaluation mode, as TensorFlow 2 programs load it: `load(...).signatures["default"](sentences)`.

    Args and errors are those of [`Module`].
    """
    return Module(handle).eval()


def _load(spec: str | PathLike[str] | None) -> ElmoModel:
    if spec is not None and str(spec).startswith(("http://", "https://", "gs://")):
        raise ValueError(
            f"spec: got the address {spec}; TensorFlow's modules cannot be read.  Expected the folder that "
            "`hf-elmo convert OPTIONS.json WEIGHTS.hdf5 FOLDER` makes of the published weights, the id of a model on "
            "the Hugging Face Hub, or None for the model that ships with the package."
        )
    return load_model(None if spec is None else str(spec))


def _entries(inputs: Any, names: tuple[str, ...]) -> list[Any]:
    if not isinstance(inputs, Mapping) or set(inputs) != set(names):
        got = sorted(inputs) if isinstance(inputs, Mapping) else type(inputs).__name__
        raise ValueError(f"inputs: got {got}; expected a dictionary with {' and '.join(map(repr, names))}.")
    return [inputs[name] for name in names]


def _words(layer: Tensor, mask: Tensor) -> Tensor:
    """(B, words + 2, W) with boundaries → (B, T, W), 0 where `mask` (B, T) is False."""
    inner = F.pad(layer[:, 1:-1], (0, 0, 0, mask.shape[1] - (layer.shape[1] - 2)))  # (B, T, W)
    return inner.masked_fill(~mask.unsqueeze(-1), 0)
