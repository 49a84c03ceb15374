"""From a model folder back to the original's files."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from hf_elmo.checkpoint_map import checkpoint_map, head_map
from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.convert.hdf5 import write_hdf5
from hf_elmo.convert.options_json import options_of
from hf_elmo.convert.weights import mix_to_json, untrained_mix
from hf_elmo.model_source import load_model
from hf_elmo.new_folder import new_folder
from hf_elmo.tokenization_elmo import ElmoTokenizer

_HEAD = ("lm_head.weight", "lm_head.bias")


def export_hdf5(model_dir: str | Path, out_dir: str | Path) -> tuple[str, ...]:
    """Write a model as AllenNLP and bilm-tf read it: options.json and weights.hdf5, in float32.

    Where the model has them, also vocab.txt, the softmax as lm_head.hdf5 (datasets `lm/softmax/W` (V, P) and
    `lm/softmax/b` (V,), their names in bilm-tf's checkpoints) and a trained scalar mix as scalar_mix.json
    (`scalar_mix_parameters` and `gamma`).  `convert` reads the whole folder back, bit by bit.

    Returns:
        What the user should know, a line each.

    Raises:
        FileExistsError: `out_dir` exists and is not an empty folder.
        ImportError: h5py is not installed.
        OSError, ValueError: `model_dir` is no model of this package, or one that the files cannot express; then nothing
            was written.
    """
    model_dir = Path(model_dir)
    if not model_dir.is_dir():
        raise FileNotFoundError(f"{model_dir}: no such folder; expected a model of this package.")
    with new_folder(Path(out_dir)) as folder:
        model = load_model(model_dir)
        config = model.config
        head = _head(model_dir)
        words = _words(model_dir)
        if head is not None and len(head["lm_head.bias"]) != config.vocab_size - 1:
            raise ValueError(
                f"{model_dir}: got a softmax of {len(head['lm_head.bias'])} rows and vocab_size {config.vocab_size}; "
                "expected one row fewer."
            )
        options = options_of(config, with_head=head is not None)
        (folder / "options.json").write_text(json.dumps(options, indent=2) + "\n", encoding="utf-8")
        write_hdf5(folder / "weights.hdf5", checkpoint_map(config), model.state_dict())
        if words is not None:
            (folder / "vocab.txt").write_bytes("".join(f"{word}\n" for word in words).encode("utf-8"))
        if head is not None:
            write_hdf5(folder / "lm_head.hdf5", head_map(config), head)
        assert model.scalar_mix is not None
        mix = {name: values.float() for name, values in model.scalar_mix.state_dict().items()}
        trained = any(not torch.equal(values, mix[name]) for name, values in untrained_mix(config).items())
        if trained and config.mix_layers is None:
            (folder / "scalar_mix.json").write_text(json.dumps(mix_to_json(mix)) + "\n", encoding="utf-8")
    return tuple(_notes(config, trained=trained))


def _head(model_dir: Path) -> dict[str, Tensor] | None:
    """The softmax, if the model has one."""
    path = model_dir / "model.safetensors"
    if not path.is_file():
        raise FileNotFoundError(f"{model_dir}: holds no model.safetensors; expected a model of this package.")
    try:
        with safe_open(path, framework="pt") as file:
            names = set(file.keys())
            return {name: file.get_tensor(name) for name in _HEAD} if names.issuperset(_HEAD) else None
    except SafetensorError as error:
        raise ValueError(f"{path}: cannot be read, the file is damaged or cut off: {error}") from error


def _words(model_dir: Path) -> list[str] | None:
    """The vocabulary in file order, or None where the tokenizer knows only the four special words."""
    if not (model_dir / "tokenizer.json").is_file():
        return None
    vocabulary = ElmoTokenizer.from_pretrained(model_dir).backend_tokenizer.get_vocab(with_added_tokens=False)
    words = sorted(vocabulary, key=vocabulary.__getitem__)
    return words[1:] if len(words) > 4 else None


def _notes(config: ElmoConfig, *, trained: bool) -> list[str]:
    notes = []
    n_f = sum(count for _, count in config.character_filters)
    unread = [
        reason
        for reason, applies in (
            ("a biLM without skip connections", not config.use_skip_connections),
            ("LSTMs as wide as their projection", config.lstm_size == config.projection_size),
            ("a character CNN without projection", n_f == config.projection_size),
            ("words of another length than 50", config.max_characters_per_word != 50),
        )
        if applies
    ]
    if unread:
        notes.append(f"AllenNLP does not read {' nor '.join(unread)}; bilm-tf does")
    if config.initial_state == "warm":
        notes.append("the warm initial state was left out: the original begins at zero")
    if trained and config.mix_layers is not None:
        notes.append("the scalar mix was left out: it reads only some of the layers")
    return notes
