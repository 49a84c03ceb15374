"""From the original's files to a model folder."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.convert.allennlp import Settings, read_settings, read_state_dict, settings_config
from hf_elmo.convert.hdf5 import read_hdf5, read_head
from hf_elmo.convert.old_vocabulary import read_old_vocabulary
from hf_elmo.convert.options_json import read_json, read_options, read_training_options
from hf_elmo.convert.sources import Format, Source
from hf_elmo.convert.weights import Weights, build_model, mix_from_json, write_folder
from hf_elmo.modeling_elmo import ElmoModel
from hf_elmo.new_folder import new_folder
from hf_elmo.tokenization_elmo import ElmoTokenizer


class Conversion(NamedTuple):
    """What was converted.

    Attributes:
        format: of the weights.
        notes: what the user should know, a line each.
    """

    format: Format
    notes: tuple[str, ...]


def convert(
    *paths: str | Path,
    vocab_file: str | Path | None = None,
    format: Format | None = None,
    with_head: bool = True,
    prefix: str | None = None,
    scalar_mix: int | None = None,
) -> Conversion:
    """Write a folder that `from_pretrained` loads: config.json, model.safetensors, tokenizer files.

    A source is a folder, a zip or tar archive, or a single file: options.json, HDF5 weights, a TensorFlow checkpoint, a
    state dict of AllenNLP, a vocabulary.  Which it is, is seen from its content.

    Args:
        paths: one or more sources, and last the folder to make.
        vocab_file: the vocabulary the biLM was trained with, one word a line, `<S>`, `</S>`, `<UNK>` first; goes before
            one in a source.  Vectors do not need it; word ids and the softmax do.
        format: how the weights are read, where the sources hold several kinds or they are not recognised.
        with_head: keep the softmax, where there is one, and Adagrad's accumulators.
        prefix: of a state dict with several ELMos, what the names of the wanted one begin with.
        scalar_mix: of a state dict with several scalar mixes, which becomes the model's.

    Raises:
        FileExistsError: the folder exists and is not empty.
        ImportError: a library that the format needs is not installed; the message names the extra.
        OSError, ValueError: a source cannot be read or is not what it should be; the message names file and reason.
            After any error nothing was written.
    """
    if len(paths) < 2:
        raise ValueError(f"paths: got {len(paths)}; expected one or more sources and the folder to make.")
    *sources, out_dir = map(Path, paths)
    with new_folder(out_dir) as folder, ExitStack() as stack:
        source = Source(sources, format, stack)
        if vocab_file is not None:
            source.parts["vocab.txt"] = Path(vocab_file)
        weights, tokenizer = _read(source, with_head=with_head, prefix=prefix, scalar_mix=scalar_mix)
        write_folder(weights, tokenizer, folder)
    return Conversion(source.format, (*source.notes, *weights.notes))


def load_original(
    options_file: str | Path, weight_file: str | Path, *, vocab_file: str | Path | None = None
) -> tuple[ElmoModel, ElmoTokenizer]:
    """The model and the tokenizer that the original's files describe, the model in evaluation mode.

    Args:
        options_file: options.json.
        weight_file: weights.hdf5.
        vocab_file: the vocabulary the biLM was trained with, one word a line, `<S>`, `</S>`, `<UNK>` first.  Vectors do
            not need it; word ids do.

    Raises:
        ImportError: h5py is not installed.
        OSError, ValueError: a file cannot be read or is not what it should be; the message names file and reason.
    """
    config = read_options(options_file)
    tokenizer, _ = _tokenizer(vocab_file, config)
    config.vocab_size = len(tokenizer)
    model = build_model(Weights(config, read_hdf5(weight_file, config)))
    assert isinstance(model, ElmoModel)
    return model, tokenizer


def _read(
    source: Source, *, with_head: bool, prefix: str | None, scalar_mix: int | None
) -> tuple[Weights, ElmoTokenizer]:
    settings = Settings()
    if "config.json" in source.parts and source.format == "state-dict":
        settings = read_settings(read_json(source.parts["config.json"]))
    config = _config(source, settings)
    tokenizer, notes = _tokenizer(source.parts.get("vocab.txt"), config)
    config.vocab_size = len(tokenizer)
    if source.format == "state-dict":
        for name, value in settings.mix.items():
            setattr(config, name, value)
        weights = read_state_dict(source.weights, config, prefix=prefix, scalar_mix=scalar_mix)
    elif source.format == "tensorflow":
        weights = _read_tensorflow(source, config, with_head=with_head)
    else:
        weights = _read_hdf5(source, config, with_head=with_head)
    weights.notes[:0] = notes
    return weights, tokenizer


def _config(source: Source, settings: Settings) -> ElmoConfig:
    if "options.json" in source.parts:
        return read_options(source.parts["options.json"])
    config = settings_config(settings)
    if config is None:
        named = f" (its config.json names {settings.options})" if settings.options else ""
        raise ValueError(
            f"{source.weights}: got weights without their options.json{named}; expected it beside them, or as one more "
            "source: clips, activation and skip connections are written nowhere else."
        )
    return config


def _tokenizer(vocab_file: str | Path | None, config: ElmoConfig) -> tuple[ElmoTokenizer, list[str]]:
    length = config.max_characters_per_word
    if vocab_file is None:
        return ElmoTokenizer(max_characters_per_word=length), []
    words, notes = read_old_vocabulary(vocab_file)
    return ElmoTokenizer(words, max_characters_per_word=length), notes


def _read_hdf5(source: Source, config: ElmoConfig, *, with_head: bool) -> Weights:
    weights = Weights(config, read_hdf5(source.weights, config))
    if "lm_head.hdf5" in source.parts and with_head:
        _need_vocabulary(source, "lm_head.hdf5 holds a softmax")
        _train_on(source, config)
        weights.head = read_head(source.parts["lm_head.hdf5"], config)
    elif "scalar_mix.json" in source.parts:
        path = source.parts["scalar_mix.json"]
        weights.mix = mix_from_json(read_json(path), config, path)
    return weights


def _read_tensorflow(source: Source, config: ElmoConfig, *, with_head: bool) -> Weights:
    from hf_elmo.convert.tensorflow import head_rows, read_checkpoint

    with_head = with_head and head_rows(source.weights) is not None
    if with_head:
        _need_vocabulary(source, "the checkpoint holds a softmax")
        _train_on(source, config)
    return read_checkpoint(source.weights, config, with_head=with_head)


def _need_vocabulary(source: Source, why: str) -> None:
    if "vocab.txt" not in source.parts:
        raise ValueError(
            f"{source.weights}: {why}, whose rows are words; expected the vocabulary: --vocab VOCAB.txt, or "
            "--without-head for vectors alone."
        )


def _train_on(source: Source, config: ElmoConfig) -> None:
    for name, value in read_training_options(source.parts["options.json"]).items():
        setattr(config, name, value)
