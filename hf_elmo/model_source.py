"""Where a model comes from: the shipped one, a folder, or the Hugging Face Hub."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from huggingface_hub import constants
from huggingface_hub.errors import GatedRepoError
from transformers.utils import logging

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.loaded_weights import refuse_wrong
from hf_elmo.modeling_elmo import ElmoForPreTraining, ElmoModel, ElmoPreTrainedModel

SHIPPED = "default"


def default_model_path() -> Path:
    """The folder of the model that ships with the package."""
    return Path(__file__).parent / "default_model"


def is_shipped(name: str | Path | None) -> bool:
    """Whether the model that ships with the package is meant: None, or "default" where no folder has that name."""
    return name is None or (str(name) == SHIPPED and not Path(name).is_dir())


def located(name: str | Path | None) -> str:
    """The folder, or the id on the Hub, that a name stands for: itself, but for the shipped model."""
    return str(default_model_path() if name is None or is_shipped(name) else name)


def load_model(name: str | Path | None = None, *, revision: str | None = None) -> ElmoModel:
    """Load a model for computing representations, in evaluation mode.

    Args:
        name: a folder with `config.json` and `model.safetensors`, an id on the Hugging Face Hub, or None or "default"
            for the model that ships with the package.
        revision: branch, tag or commit of a model on the Hub.

    Raises:
        OSError: no such folder, and nothing of that name on the Hub or in its local cache.
        ValueError: found, but not an ELMo model, or one whose weights are damaged or belong to another configuration.
    """
    source, _ = _find(name, revision)
    model: ElmoModel
    model, missing, mismatched = _load(ElmoModel, source, revision)
    refuse_wrong(source, missing | mismatched)
    return model.eval()


def load_language_model(
    name: str | Path | None = None, *, revision: str | None = None, **changes: Any
) -> tuple[ElmoForPreTraining, bool]:
    """Load a biLM with its softmax, in evaluation mode, and say whether it had one.

    Without one, as in converted or published weights, the head has its initial random values.

    Args:
        name, revision: as in `load_model`.
        changes: fields of the configuration that are to differ from the model's, such as `dropout`.

    Raises:
        OSError, ValueError: as in `load_model`; a changed field out of its range.
    """
    source, config = _find(name, revision)
    model: ElmoForPreTraining
    changed = ElmoConfig.from_dict({**config, **changes})
    model, missing, mismatched = _load(ElmoForPreTraining, source, revision, config=changed)
    head = {f"lm_head.{name}" for name, _ in model.lm_head.named_parameters()}
    has_head = not head <= missing
    refuse_wrong(source, mismatched | (missing if has_head else missing - head))
    return model.eval(), has_head


def _find(name: str | Path | None, revision: str | None) -> tuple[str, dict[str, Any]]:
    """Where the model is, and its config.json."""
    if name is not None and not str(name):
        raise ValueError("model: got an empty name; expected a folder, an id on the Hugging Face Hub, or none at all.")
    source = located(name)
    if Path(source).is_dir() and not (Path(source) / "config.json").is_file():
        raise OSError(
            f"{source}: got a folder without a config.json; expected one made by save_pretrained or `hf-elmo convert`."
        )
    try:
        config = ElmoConfig.get_config_dict(source, revision=revision)[0]
    except OSError as error:
        if (Path(source) / "config.json").is_file():
            raise ValueError(f"{source}: its config.json cannot be read as JSON: {error}") from error
        if isinstance(error.__cause__, GatedRepoError):
            raise OSError(
                f"the ELMo model {source!r} is gated: ask for access at {constants.ENDPOINT}/{source}, and log in with "
                "`hf auth login` or set HF_TOKEN."
            ) from error
        raise OSError(_not_found(source, revision)) from error
    return source, config


def _load(
    kind: type[ElmoPreTrainedModel], source: str, revision: str | None, **options: Any
) -> tuple[Any, set[str], set[str]]:
    """Load weights that are known to be an ELMo's, and name those that are missing, and those of another shape."""
    try:
        with without_progress_bars(), _without_load_report():
            loaded: Any = kind.from_pretrained(
                source,
                revision=revision or "main",
                use_safetensors=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
                **options,
            )
    except OSError as error:
        if not (Path(source) / "config.json").is_file() or (Path(source) / "model.safetensors").is_file():
            raise
        raise OSError(
            f"{source}: got a folder with a config.json and without weights; expected model.safetensors beside it. "
            "Copy the whole folder, or convert the original's weights by `hf-elmo convert`."
        ) from error
    model, info = loaded
    return model, set(info["missing_keys"]), {key for key, *_ in info["mismatched_keys"]}


def _not_found(source: str, revision: str | None) -> str:
    offline = " (HF_HUB_OFFLINE is set, so only the cache was searched)" if constants.HF_HUB_OFFLINE else ""
    at = f" at revision {revision!r}" if revision else ""
    return (
        f"no ELMo model {source!r}: looked for the folder {Path(source).absolute()} with a config.json, and for that id"
        f"{at} on the Hugging Face Hub and in its cache {constants.HF_HUB_CACHE}{offline}.  For a private model, log "
        f'in with `hf auth login` or set HF_TOKEN.  Without a network, use the shipped model ("{SHIPPED}"), or the '
        "path of a folder made by `hf-elmo convert` or copied from elsewhere."
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


@contextlib.contextmanager
def _without_load_report() -> Iterator[None]:
    """What is missing is said by an error of one line, or, of a head, by who starts it."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
