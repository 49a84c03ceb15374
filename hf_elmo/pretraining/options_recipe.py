"""bilm-tf's options.json as a recipe: what the original's training read, as options of ours.

Its training had one optimiser and one schedule: Adagrad that begins with an accumulator of 1, a constant learning rate,
the gradient of the loss times the unrolled words.  Keys on the training that a file leaves out, as the published ones
do, have the values of the published models' training (`bin/train_elmo.py`).
"""

from __future__ import annotations

import difflib
import logging
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.convert.options_json import model_options, read_json

logger = logging.getLogger(__name__)

# Of the published models' training; `sample_softmax` is on where it is not given.
_DEFAULTS: dict[str, Any] = {
    "dropout": 0.1,
    "all_clip_norm_val": 10.0,
    "n_epochs": 10,
    "batch_size": 128,
    "unroll_steps": 20,
    "n_negative_samples_batch": 8192,
    "learning_rate": 0.2,
    "sample_softmax": True,
}
_MODEL_KEYS = frozenset(
    [
        "bidirectional",
        *(f"char_cnn.{key}" for key in ("activation", "embedding.dim", "filters", "max_characters_per_token")),
        *(f"char_cnn.{key}" for key in ("n_characters", "n_highway")),
        *(f"lstm.{key}" for key in ("cell_clip", "dim", "n_layers", "proj_clip", "projection_dim")),
        "lstm.use_skip_connections",
    ]
)
_OTHER_KEYS = frozenset(["n_train_tokens", "n_tokens_vocab", "share_embedding_softmax", "optimizer"])
_KNOWN = _MODEL_KEYS | _OTHER_KEYS | _DEFAULTS.keys()
_COUNTS = ("n_epochs", "batch_size", "unroll_steps", "n_negative_samples_batch", "n_train_tokens", "n_tokens_vocab")
_NUMBERS = ("all_clip_norm_val", "learning_rate")


def read_options_recipe(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A recipe's options, and those of ElmoConfig, as `read_recipe` gives them.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no such file; a key that is unknown, not supported, out of range, or at odds with another.
    """
    options = read_json(path)
    try:
        _check_keys(options)
        given = {key: options[key] for key in (*_DEFAULTS, *_OTHER_KEYS) if key in options}
        _check_values(given)
        model = model_options(options)
        ElmoConfig(**model)
        values = {**_DEFAULTS, **given}
        _check_agreement(values)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error
    absent = [f"{key} {value}" for key, value in _DEFAULTS.items() if key not in given and key != "sample_softmax"]
    if absent:
        logger.info("%s: not given, so as the published models were trained: %s", path, ", ".join(absent))
    model["dropout"] = values["dropout"]
    model["num_negative_samples"] = values["n_negative_samples_batch"]
    model["lm_softmax"] = "sampled" if values["sample_softmax"] else "full"
    recipe = {
        "per_device_train_batch_size": values["batch_size"],
        "unroll_steps": values["unroll_steps"],
        "num_train_epochs": values["n_epochs"],
        "max_grad_norm": float(values["all_clip_norm_val"]),
        "learning_rate": float(values["learning_rate"]),
        "lr_scheduler_type": "constant",
        "optim": "adagrad",
        "adagrad_accumulator": 1.0,
        "sparse_softmax_gradient": True,  # the same update, without the rows that were not read
        "scale_loss_by_unroll_steps": True,
    }
    for key, name in (("n_train_tokens", "words_per_epoch"), ("n_tokens_vocab", "vocab_size")):
        if key in values:
            recipe[name] = values[key]
    return recipe, model


def _check_keys(options: Mapping[str, Any]) -> None:
    for key in _leaves(options):
        if key not in _KNOWN:
            close = difflib.get_close_matches(key, _KNOWN, n=1)
            meant = f"did you mean {close[0]!r}?" if close else "remove it; the original's training did not read it."
            raise ValueError(f"got the key {key!r}, which does not exist; {meant}")


def _leaves(options: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The keys that hold values, as `lstm.dim`."""
    for key, value in options.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def _check_values(given: Mapping[str, Any]) -> None:
    for key in _COUNTS:
        value = given.get(key, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{key}: got {value!r}; expected a positive integer.")
    for key in _NUMBERS:
        value = given.get(key, 1.0)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < math.inf:
            raise ValueError(f"{key}: got {value!r}; expected a positive number.")
    dropout = given.get("dropout", 0.0)
    if not isinstance(dropout, (int, float)) or isinstance(dropout, bool) or not 0 <= dropout < 1:
        raise ValueError(f"dropout: got {dropout!r}; expected a number from 0 to below 1.")
    if not isinstance(given.get("sample_softmax", True), bool):
        raise ValueError(f"sample_softmax: got {given['sample_softmax']!r}; expected true or false.")
    optimizer = given.get("optimizer", "adagrad")
    if not isinstance(optimizer, str) or optimizer.lower() != "adagrad":
        raise ValueError(
            f"optimizer: got {optimizer!r}; expected 'adagrad', the only one of the original.  For another, remove the "
            "key and add --optim to the command."
        )
    if given.get("share_embedding_softmax", False) is not False:
        raise ValueError(
            f"share_embedding_softmax: got {given['share_embedding_softmax']!r}; expected false.  The input is "
            "characters, which share nothing with the softmax's words; the original refuses this, too."
        )


def _check_agreement(values: Mapping[str, Any]) -> None:
    """Where the original would fail later, with a message of TensorFlow's."""
    vocab_size, negatives = values.get("n_tokens_vocab"), values["n_negative_samples_batch"]
    if vocab_size is not None and values["sample_softmax"] and negatives > vocab_size:
        raise ValueError(
            f"n_negative_samples_batch: got {negatives}; expected at most n_tokens_vocab = {vocab_size}, since the "
            "negatives are distinct words.  Lower it, or set sample_softmax to false."
        )
