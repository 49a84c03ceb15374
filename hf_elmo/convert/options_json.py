"""The original's options.json: the sizes and options that belong to a weight file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hf_elmo.configuration_elmo import ElmoConfig

_REQUIRED = object()
# The file counts characters with or without the padding id; the weights are the same.
_CHARACTER_COUNTS = (261, 262)


def read_options(path: str | Path) -> ElmoConfig:
    """The configuration that an options.json describes.

    Options that matter only to training (batch size, epochs, …) are not read.

    Raises:
        OSError: the file cannot be read.
        ValueError: not such a file, an option missing or out of range, or a model that is none of ELMo's.
    """
    path = Path(path)
    options = read_json(path)
    try:
        return ElmoConfig(**model_options(options))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def read_json(path: Path) -> dict[str, Any]:
    """The content of an options.json.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no JSON, or no object.
    """
    try:
        options = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path}: got something that is no JSON ({error}); expected the model's options.json."
        ) from error
    if not isinstance(options, dict):
        raise ValueError(f"{path}: got {type(options).__name__}; expected an object with the keys lstm and char_cnn.")
    return options


def model_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of ElmoConfig that the keys on the model describe.

    Raises:
        ValueError: one is missing, or the model is none of ELMo's.
    """
    if options.get("bidirectional", True) is not True:
        raise ValueError(
            f"bidirectional: got {options['bidirectional']!r}; expected true.  ELMo needs both directions, and the "
            "reference cannot load a model of one either."
        )
    if "char_cnn" not in options:
        raise ValueError("char_cnn: missing; a biLM over word embeddings has no character CNN and is not supported.")
    characters = _value(options, "char_cnn.n_characters", 262)
    if characters not in _CHARACTER_COUNTS:
        raise ValueError(f"char_cnn.n_characters: got {characters!r}; expected 261 or 262.")
    return {
        "max_characters_per_word": _value(options, "char_cnn.max_characters_per_token", 50),
        "character_embedding_size": _value(options, "char_cnn.embedding.dim"),
        "character_filters": _value(options, "char_cnn.filters"),
        "character_activation": _value(options, "char_cnn.activation"),
        "num_highway_layers": _value(options, "char_cnn.n_highway", 0) or 0,
        "projection_size": _value(options, "lstm.projection_dim"),
        "lstm_size": _value(options, "lstm.dim"),
        "num_hidden_layers": _value(options, "lstm.n_layers", 1),
        "use_skip_connections": _value(options, "lstm.use_skip_connections", False),
        "cell_clip": _value(options, "lstm.cell_clip", None),
        "projection_clip": _value(options, "lstm.proj_clip", None),
    }


def _value(options: Mapping[str, Any], path: str, default: Any = _REQUIRED) -> Any:
    value: Any = options
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            if default is _REQUIRED:
                raise ValueError(f"{path}: missing; expected it in the options of a pretrained biLM.")
            return default
        value = value[key]
    return value
