"""From the original's files to a model folder."""

from pathlib import Path

from hf_elmo.convert.hdf5 import read_hdf5
from hf_elmo.convert.options_json import read_options
from hf_elmo.modeling_elmo import ElmoModel
from hf_elmo.new_folder import new_folder
from hf_elmo.tokenization_elmo import ElmoTokenizer


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
    length = config.max_characters_per_word
    if vocab_file is None:
        tokenizer = ElmoTokenizer(max_characters_per_word=length)
    else:
        tokenizer = ElmoTokenizer.from_vocab_file(vocab_file, max_characters_per_word=length)
    config.vocab_size = len(tokenizer)
    parameters = read_hdf5(weight_file, config)
    model = ElmoModel(config).eval()
    mix = {f"scalar_mix.{name}": value for name, value in model.scalar_mix.state_dict().items()}
    model.load_state_dict({**parameters, **mix}, strict=True)
    return model, tokenizer


def convert(
    options_file: str | Path,
    weight_file: str | Path,
    out_dir: str | Path,
    *,
    vocab_file: str | Path | None = None,
) -> None:
    """Write a folder that `from_pretrained` loads: config.json, model.safetensors, tokenizer files.

    Raises:
        FileExistsError: `out_dir` exists and is not an empty folder.
        ImportError, OSError, ValueError: as [`load_original`]; then nothing is written.
    """
    with new_folder(Path(out_dir)) as folder:
        model, tokenizer = load_original(options_file, weight_file, vocab_file=vocab_file)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
