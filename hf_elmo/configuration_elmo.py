"""Configuration of ELMo: every option of the original's options.json, under transformers' names."""

import contextlib
import difflib
import functools
import math
import os
from collections.abc import Iterator
from typing import Any

from huggingface_hub.dataclasses import strict
from huggingface_hub.errors import StrictDataclassError
from transformers.configuration_utils import PreTrainedConfig
from transformers.utils import logging

from hf_elmo.auto_map import SHIM, FoundByAutoMap, model_auto_map, write_shim

logger = logging.get_logger(__name__)

INITIAL_STATES = ("zero", "warm", "carry")
MIX_LAYER_NORMS = ("none", "token", "batch")
ACTIVATIONS = ("relu", "tanh")
SOFTMAXES = ("sampled", "full", "adaptive")
ELMO_PLACEMENTS = ("input", "output", "both")
POOLINGS = ("mean", "max", "biattention")

# Keys that transformers itself writes into a config.json without declaring them as fields.
_TRANSFORMERS_KEYS = frozenset(
    [
        "auto_map",
        "custom_pipelines",
        "name_or_path",
        "num_labels",
        "quantization_config",
        "task_specific_params",
        "torch_dtype",
        "tie_word_embeddings",
        "tie_last_hidden_states",
        "use_cache",
        "attn_implementation",
        "experts_implementation",
        "output_attentions",
    ]
)


@contextlib.contextmanager
def _value_errors() -> Iterator[None]:
    """A value out of range is a ValueError of one line; the strict dataclass's own error is neither."""
    try:
        yield
    except StrictDataclassError as error:
        raise ValueError(str(error.__cause__ or error)) from error


def _raising_value_errors(cls: type["ElmoConfig"]) -> type["ElmoConfig"]:
    strict_init = cls.__init__

    @functools.wraps(strict_init)
    def init(self: "ElmoConfig", *args: Any, **kwargs: Any) -> None:
        with _value_errors():
            strict_init(self, *args, **kwargs)

    cls.__init__ = init  # type: ignore[method-assign]
    return cls


@_raising_value_errors
@strict
class ElmoConfig(FoundByAutoMap, PreTrainedConfig):
    r"""Sizes and options of an ELMo biLM (Peters et al. 2018, section 3) and of its scalar mix.

    The defaults are the published "original" model (2x4096_512_2048cnn_2xhighway).

    Args:
        vocab_size: word ids including `<pad>`; the LM head has `vocab_size - 1` rows.  A converted model without a
            vocabulary file has the four special words only.
        character_vocab_size: 256 bytes, 5 marks and the padding id.
        max_characters_per_word: length C of a row of character ids, begin and end mark included.
        character_embedding_size: width d of a character's embedding.
        character_filters: `[[width, count], ...]` of the character CNN.
        character_activation: `"relu"` or `"tanh"`, after the maximum over positions.
        num_highway_layers: highway layers after the convolutions, 0 or more.
        projection_size: P, the width of the token layer and of each direction's output.
        lstm_size: D, the width of the LSTM's cell.  Where D equals P the cell has no projection.
        num_hidden_layers: L, the biLSTM layers.
        use_skip_connections: add a layer's input to its output, from the second layer on.
        cell_clip: bound on the cell state, or None.
        projection_clip: bound on the projected output, or None.
        dropout: probability of the biLM's dropout while it is pretrained (`ElmoForPreTraining`).  `ElmoModel`, which
            computes representations, has none, like the reference.
        initial_state: `"zero"`; `"warm"`: one stored state per layer and direction, kept with the weights; `"carry"`:
            the caller hands the final state of one call to the next, as the reference did silently.
        mix_layers: the layers that the scalar mix reads (0 = token layer), or None for all.
        mix_layer_norm: `"none"`, `"token"` (each token of each layer by its own mean and variance) or `"batch"` (the
            reference's statistics over the whole batch, which make a sentence depend on its batch mates).
        mix_layer_norm_eps: added to the variance.
        mix_l2: λ of the paper's penalty λ‖w‖² on the mix weights, see [`ScalarMix.penalty`].
        mix_trainable: whether the mix's weights and gamma are trained.
        lm_softmax: softmax of the language model: `"full"`; `"sampled"`, the same weights trained on a sample of
            negatives and evaluated in full; `"adaptive"` (Grave et al. 2017): rare words in clusters with narrower
            weights, trained and evaluated exactly.
        num_negative_samples: distinct negatives of the sampled softmax, per direction and batch.
        adaptive_cutoffs: where the adaptive softmax's clusters begin, in rows of the LM head, which stand by falling
            frequency: the words before the first cutoff have full rows, each cutoff begins a cluster.  None: a
            twentieth and a quarter of the words.
        adaptive_div_value: each cluster's rows are narrower than the last one's by this factor; the first cluster's
            than `projection_size`.
        freeze_bilm: train a task's layers and its mixes only.  False: fine-tune the biLM too.  Of the task heads; so
            are the options that follow.
        elmo_dropout: probability of dropping a feature of what the biLM gives, before the task's layers.
        elmo_placement: where the mix goes (section 3.3): `"input"` of the task's network; `"output"`, beside what its
            first recurrent layers give, which then read the token layer; `"both"`: two mixes of one biLM pass.
        classifier_num_layers: biLSTM layers between ELMo and the classifier; 0: none.  The biattentive network and
            question answering have a network of their own, whatever this number.
        classifier_lstm_size: width of each direction of the task's recurrent layers.
        classifier_dropout: probability of dropout inside the task's network, and on what it gives.
        use_crf: score whole sequences of tags by a conditional random field (token classification).
        pooling: how a sentence becomes one vector: `"mean"` or `"max"` of its words, or `"biattention"`, the
            biattentive classification network (McCann et al. 2017).  Of sequence classification; so are the next two.
        pool_boundaries: pool `<S>` and `</S>` too.
        sentence_pairs: classify pairs of sentences, as in entailment.

    Raises:
        ValueError: a value outside its range, or a name that looks like a misspelt field.
    """

    model_type = "elmo"
    keys_to_ignore_at_inference = ["state", "predictions"]

    vocab_size: int = 4
    character_vocab_size: int = 262
    max_characters_per_word: int = 50
    character_embedding_size: int = 16
    # Immutable, since it is every configuration's default; a list of lists from __post_init__ on.
    character_filters: list[list[int]] | tuple = (
        (1, 32),
        (2, 32),
        (3, 64),
        (4, 128),
        (5, 256),
        (6, 512),
        (7, 1024),
    )
    character_activation: str = "relu"
    num_highway_layers: int = 2
    projection_size: int = 512
    lstm_size: int = 4096
    num_hidden_layers: int = 2
    use_skip_connections: bool = True
    cell_clip: float | int | None = 3.0
    projection_clip: float | int | None = 3.0
    dropout: float | int = 0.1
    initial_state: str = "zero"
    mix_layers: list[int] | tuple | None = None
    mix_layer_norm: str = "none"
    mix_layer_norm_eps: float | int = 1e-12
    mix_l2: float | int = 0.0
    mix_trainable: bool = True
    lm_softmax: str = "sampled"
    num_negative_samples: int = 8192
    adaptive_cutoffs: list[int] | tuple | None = None
    adaptive_div_value: float | int = 4.0
    freeze_bilm: bool = True
    elmo_dropout: float | int = 0.5
    elmo_placement: str = "input"
    classifier_num_layers: int = 0
    classifier_lstm_size: int = 200
    classifier_dropout: float | int = 0.2
    use_crf: bool = False
    pooling: str = "mean"
    pool_boundaries: bool = False
    sentence_pairs: bool = False
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | None = 2
    unk_token_id: int | None = 3

    def __post_init__(self, **kwargs: Any) -> None:
        _refuse_misspelt(kwargs, known=type(self).__dataclass_fields__)
        self.character_filters = [list(pair) for pair in self.character_filters]
        # The original's files write "no clip" as 0 or null.
        self.cell_clip = self.cell_clip or None
        self.projection_clip = self.projection_clip or None
        if self.lm_softmax == "adaptive" and self.adaptive_cutoffs is None:
            # Written into the file, since the weights' shapes depend on it.
            self.adaptive_cutoffs = _default_cutoffs(self.vocab_size - 1)
        super().__post_init__(**kwargs)

    @classmethod
    def get_config_dict(
        cls, pretrained_model_name_or_path: str | os.PathLike[str], **kwargs: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """As in the base class, and refuse the configuration of another model.

        Raises:
            OSError: there is none, or it cannot be read.
            ValueError: it is that of another kind of model, or none at all.
        """
        content, unused = super().get_config_dict(pretrained_model_name_or_path, **kwargs)
        if not content:
            raise OSError(
                f"{pretrained_model_name_or_path}: got no config.json, or an empty one; expected one made by "
                "save_pretrained or `hf-elmo convert`."
            )
        kind = content.get("model_type") if isinstance(content, dict) else type(content).__name__
        if kind != cls.model_type:
            raise ValueError(
                f"{pretrained_model_name_or_path}: got a model of type {kind!r}; expected {cls.model_type!r}.  Weights "
                "in the original's format are converted by `hf-elmo convert OPTIONS.json WEIGHTS.hdf5 OUT_DIR`."
            )
        return content, unused

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """As in the base class, but options given beside the file are checked like those in it.

        Raises:
            ValueError: a value outside its range, or of another type.
        """
        # The base class sets them one by one on a configuration that is checked already.
        own = cls.__dataclass_fields__.keys() - PreTrainedConfig.__dataclass_fields__.keys()
        given = {name: kwargs.pop(name) for name in list(kwargs) if name in own}
        with _value_errors():
            result: Any = super().from_dict({**config_dict, **given}, **kwargs)
        (result[0] if kwargs.get("return_unused_kwargs") else result).check()
        return result

    def check(self) -> None:
        """Check every option, as it was set since.

        Raises:
            ValueError: a value outside its range.
        """
        with _value_errors():
            self.validate()

    def save_pretrained(self, save_directory: str | os.PathLike[str], push_to_hub: bool = False, **kwargs: Any) -> None:
        """As in the base class, and beside config.json the file by which `trust_remote_code=True` finds the classes.

        Raises:
            ValueError: an option outside its range; then nothing is written.
        """
        self.check()
        save_directory = os.fspath(save_directory)
        self.auto_map = model_auto_map(getattr(self, "auto_map", None))
        if not os.path.isfile(save_directory):  # the base class says what is wrong with a file
            os.makedirs(save_directory, exist_ok=True)
            write_shim(save_directory)
        super().save_pretrained(save_directory, push_to_hub=push_to_hub, **kwargs)

    def _get_files_timestamps(self, working_dir: str | os.PathLike[str]) -> dict[str, float]:
        """What was there before saving and is not sent to the Hub; the file of the classes always is."""
        timestamps: dict[str, float] = super()._get_files_timestamps(working_dir)
        return {name: time for name, time in timestamps.items() if name != SHIM}

    @property
    def hidden_size(self) -> int:
        """Width of every layer's output: both directions, 2·projection_size."""
        return 2 * self.projection_size

    @property
    def num_mixed_layers(self) -> int:
        """How many layers the scalar mix reads."""
        return self.num_hidden_layers + 1 if self.mix_layers is None else len(self.mix_layers)

    def validate_sizes(self) -> None:
        """Every size is a positive integer; ids leave room for a word between its marks."""
        for name in ("character_embedding_size", "projection_size", "lstm_size", "num_hidden_layers"):
            _check_at_least(name, getattr(self, name), 1)
        _check_at_least("num_highway_layers", self.num_highway_layers, 0)
        _check_at_least("max_characters_per_word", self.max_characters_per_word, 3)
        _check_at_least("character_vocab_size", self.character_vocab_size, 262)
        _check_at_least("vocab_size", self.vocab_size, 4)
        _check_at_least("num_negative_samples", self.num_negative_samples, 1)
        _check_at_least("classifier_num_layers", self.classifier_num_layers, 0)
        _check_at_least("classifier_lstm_size", self.classifier_lstm_size, 1)

    def validate_character_filters(self) -> None:
        """`[[width, count], ...]`, at least one, no wider than a word's row."""
        longest = self.max_characters_per_word
        for pair in self.character_filters:
            if len(pair) != 2 or not all(isinstance(n, int) and n > 0 for n in pair) or pair[0] > longest:
                raise ValueError(
                    f"character_filters: got {pair!r}; expected [width, count], both positive integers and width ≤ "
                    f"max_characters_per_word = {longest}."
                )
        if not self.character_filters:
            raise ValueError("character_filters: got an empty list; expected at least one [width, count].")

    def validate_choices(self) -> None:
        """The options that take one of a few words."""
        _check_choice("character_activation", self.character_activation, ACTIVATIONS)
        _check_choice("initial_state", self.initial_state, INITIAL_STATES)
        _check_choice("mix_layer_norm", self.mix_layer_norm, MIX_LAYER_NORMS)
        _check_choice("lm_softmax", self.lm_softmax, SOFTMAXES)
        _check_choice("elmo_placement", self.elmo_placement, ELMO_PLACEMENTS)
        _check_choice("pooling", self.pooling, POOLINGS)

    def validate_numbers(self) -> None:
        """Clips are positive or None, dropouts are probabilities, λ is not negative."""
        for name in ("cell_clip", "projection_clip"):
            value = getattr(self, name)
            if value is not None and not (0 < value < math.inf):
                raise ValueError(f"{name}: got {value!r}; expected a positive number, or None for no clip.")
        for name in ("dropout", "elmo_dropout", "classifier_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}: got {getattr(self, name)!r}; expected a number from 0 to below 1.")
        if not 0 <= self.mix_l2 < math.inf:
            raise ValueError(f"mix_l2: got {self.mix_l2!r}; expected 0 or more.")
        if not 0 < self.mix_layer_norm_eps < math.inf:
            raise ValueError(f"mix_layer_norm_eps: got {self.mix_layer_norm_eps!r}; expected more than 0.")

    def validate_mix_layers(self) -> None:
        """Layers of the mix exist and are named once."""
        if self.mix_layers is None:
            return
        layers = list(self.mix_layers)
        valid = range(self.num_hidden_layers + 1)
        if not layers or len(set(layers)) != len(layers) or any(layer not in valid for layer in layers):
            raise ValueError(
                f"mix_layers: got {layers!r}; expected distinct layers from 0 (token layer) to "
                f"{self.num_hidden_layers} (top), or None for all."
            )

    def validate_adaptive_softmax(self) -> None:
        """Cutoffs divide the words into parts that are not empty, and no cluster's rows are of width 0."""
        if self.lm_softmax != "adaptive":
            return
        cutoffs, last = list(self.adaptive_cutoffs or []), self.vocab_size - 2
        integers = all(isinstance(cutoff, int) for cutoff in cutoffs)
        if not cutoffs or not integers or cutoffs != sorted(set(cutoffs)) or cutoffs[0] < 1 or cutoffs[-1] > last:
            raise ValueError(
                f"adaptive_cutoffs: got {cutoffs!r}; expected rising integers from 1 to {last} (the LM head has "
                f"{last + 1} rows), or None to have them chosen."
            )
        if not 1 <= self.adaptive_div_value < math.inf:
            raise ValueError(f"adaptive_div_value: got {self.adaptive_div_value!r}; expected a number of at least 1.")
        if self.projection_size // self.adaptive_div_value ** len(cutoffs) < 1:
            raise ValueError(
                f"adaptive_div_value: got {self.adaptive_div_value!r}, with which the last of {len(cutoffs)} clusters "
                f"would have rows of width 0; expected at most projection_size ** (1 / {len(cutoffs)}) = "
                f"{self.projection_size ** (1 / len(cutoffs)):.3g}, or fewer adaptive_cutoffs."
            )


def _default_cutoffs(num_words: int) -> list[int]:
    first = max(1, num_words // 20)
    return [first, max(first + 1, num_words // 4)]


def _refuse_misspelt(extra: dict[str, Any], *, known: Any) -> None:
    """Transformers keeps unknown arguments silently; a misspelt one would leave its default in force."""
    for name in extra:
        if name in known or name in _TRANSFORMERS_KEYS or name.startswith("_"):
            continue
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
        if close:
            raise ValueError(f"ElmoConfig: got {name!r}, which is no option; did you mean {close[0]!r}?")
        logger.warning(f"ElmoConfig: {name!r} is none of ELMo's options; it is kept in the config without effect.")


def _check_at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{name}: got {value!r}; expected an integer of at least {least}.")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name}: got {value!r}; expected one of {', '.join(map(repr, choices))}.")
