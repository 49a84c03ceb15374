"""Where a model comes from: the shipped one, a folder, or the Hugging Face Hub."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from huggingface_hub import constants
from safetensors import SafetensorError
from transformers.utils import logging

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.modeling_elmo import ElmoModel


def default_model_path() -> Path:
    """The folder of the model that ships with the package."""
    return Path(__file__).parent / "default_model"


def load_model(name: str | Path | None = None, *, revision: str | None = None) -> ElmoModel:
    """Load a model for computing representations, in evaluation mode.

    Args:
        name: a folder with `config.json` and `model.safetensors`, an id on the Hugging Face Hub, or None for the model
            that ships with the package.
        revision: branch, tag or commit of a model on the Hub.

    Raises:
        OSError: no such folder, and nothing of that name on the Hub or in its local cache.
        ValueError: found, but not an ELMo model, or one whose weights are damaged or belong to another configuration.
    """
    source = str(default_model_path() if name is None else name)
    if Path(source).is_dir() and not (Path(source) / "config.json").is_file():
        raise OSError(
            f"{source}: got a folder without a config.json; expected one made by save_pretrained or `hf-elmo convert`."
        )
    try:
        config = ElmoConfig.get_config_dict(source, revision=revision)[0]
    except OSError as error:
        if (Path(source) / "config.json").is_file():
            raise ValueError(f"{source}: its config.json cannot be read as JSON: {error}") from error
        raise OSError(_not_found(source, revision)) from error
    if config.get("model_type") != ElmoConfig.model_type:
        raise ValueError(
            f"{source}: got a model of type {config.get('model_type')!r}; expected {ElmoConfig.model_type!r}.  "
            "Weights in the original's format are converted by `hf-elmo convert OPTIONS.json WEIGHTS.hdf5 OUT_DIR`."
        )
    return _load(source, revision)


def _load(source: str, revision: str | None) -> ElmoModel:
    """Load weights that are known to be an ELMo's; none may be left at a random value."""
    try:
        with without_progress_bars():
            loaded: Any = ElmoModel.from_pretrained(
                source,
                revision=revision or "main",
                use_safetensors=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
            )
    except SafetensorError as error:
        raise ValueError(
            f"{source}: cannot read its model.safetensors, which is damaged or cut off ({error}); "
            "copy or download it again."
        ) from error
    model: ElmoModel
    model, info = loaded
    wrong = sorted({*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])})
    if wrong:
        raise ValueError(
            f"{source}: got weights that do not fit its config.json, {wrong[0]} and {len(wrong) - 1} more are missing "
            "or of another shape; expected both files from one model."
        )
    return model.eval()


def _not_found(source: str, revision: str | None) -> str:
    offline = " (HF_HUB_OFFLINE is set, so only the cache was searched)" if constants.HF_HUB_OFFLINE else ""
    at = f" at revision {revision!r}" if revision else ""
    return (
        f"no ELMo model {source!r}: looked for the folder {Path(source).absolute()} with a config.json, and for that id"
        f"{at} on the Hugging Face Hub and in its cache {constants.HF_HUB_CACHE}{offline}.  Without a network, use "
        "the shipped model (None), or the path of a folder made by `hf-elmo convert` or copied from elsewhere."
    )


@contextlib.contextmanager
def without_progress_bars() -> Iterator[None]:
    """Loading takes a moment, and a component's user did not ask for a bar."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
