import json
from pathlib import Path
from typing import Any

import pytest

from hf_elmo.convert.options_json import read_options
from tests.oracles import random_weights


def _write(folder: Path, options: Any) -> Path:
    path = folder / "options.json"
    path.write_text(options if isinstance(options, str) else json.dumps(options), encoding="utf-8")
    return path


def test_the_original_model(tmp_path: Path) -> None:
    config = read_options(_write(tmp_path, random_weights.options("original")))
    assert (config.lstm_size, config.projection_size, config.num_hidden_layers) == (4096, 512, 2)
    assert (config.cell_clip, config.projection_clip, config.use_skip_connections) == (3, 3, True)
    assert config.character_filters[-1] == [7, 1024]
    assert config.num_highway_layers == 2


@pytest.mark.parametrize("characters", [261, 262, None])
def test_characters_are_counted_either_way(characters: int | None, tmp_path: Path) -> None:
    options = random_weights.options("tiny")
    options["char_cnn"]["n_characters"] = characters
    if characters is None:
        del options["char_cnn"]["n_characters"]
    assert read_options(_write(tmp_path, options)).character_vocab_size == 262


def test_absent_options_have_the_references_defaults(tmp_path: Path) -> None:
    options = random_weights.options("tiny")
    for key in ("cell_clip", "proj_clip", "use_skip_connections", "n_layers"):
        del options["lstm"][key]
    del options["char_cnn"]["n_highway"]
    config = read_options(_write(tmp_path, {**options, "batch_size": 128}))
    assert (config.cell_clip, config.projection_clip) == (None, None)
    assert (config.use_skip_connections, config.num_hidden_layers, config.num_highway_layers) == (False, 1, 0)


def _changed(path: str, value: Any) -> dict[str, Any]:
    options = random_weights.options("tiny")
    *parents, last = path.split(".")
    place = options
    for parent in parents:
        place = place[parent]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (_changed("lstm.dim", None), "lstm.dim: missing"),
        (_changed("char_cnn.embedding.dim", None), "char_cnn.embedding.dim: missing"),
        (_changed("char_cnn", None), "word embeddings"),
        (_changed("bidirectional", False), "bidirectional: got False; expected true"),
        (_changed("char_cnn.n_characters", 256), "got 256; expected 261 or 262"),
        (_changed("char_cnn.activation", "gelu"), "character_activation"),
        (_changed("lstm.dim", "big"), "lstm_size"),
        (_changed("char_cnn.filters", [[1, 4, 3]]), r"\[1, 4, 3\]"),
        ("{not json", "no JSON"),
        ("[1, 2]", "got list"),
    ],
)
def test_what_is_wrong_is_said_with_the_files_name(options: Any, message: str, tmp_path: Path) -> None:
    path = _write(tmp_path, options)
    with pytest.raises(ValueError, match=message) as caught:
        read_options(path)
    assert str(path) in str(caught.value)
