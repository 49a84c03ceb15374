"""From the folder of a training run to the model that others load."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import nn

from hf_elmo.convert.export import export_hdf5
from hf_elmo.modeling_elmo import ElmoForPreTraining, ElmoModel
from hf_elmo.new_folder import new_folder
from hf_elmo.pretraining.learning_curve import FIGURE
from hf_elmo.pretraining.model_card import CARD, named_for_hub
from hf_elmo.tokenization_elmo import ElmoTokenizer

StoredType = Literal["float16", "float32"]
HDF5 = "hdf5"


def publish(
    run_dir: str | Path,
    out_dir: str | Path,
    *,
    dtype: StoredType = "float16",
    with_lm_head: bool = False,
    with_hdf5: bool = False,
    repo_id: str | None = None,
) -> tuple[str, ...]:
    """Write model, tokenizer and model card to a new folder, without what only training needs.

    Weights stored in float16 take half the space; they are loaded, and computed with, in float32.

    Args:
        run_dir: folder of a run, or one of its checkpoints.
        out_dir: the folder to make.
        dtype: how weights are stored.
        with_lm_head: keep the softmax, for perplexity and further pretraining.
        with_hdf5: add a folder `hdf5` with the same weights as AllenNLP and bilm-tf read them.
        repo_id: where the folder is going to be on the Hub; the model card's programs then load it from there.

    Returns:
        What the user should know, a line each.

    Raises:
        FileExistsError: `out_dir` exists and is not an empty folder.
        ImportError: h5py is not installed, which HDF5 needs.
        OSError, ValueError: no model or tokenizer in `run_dir`, they do not belong together, or a weight does not fit
            into `dtype`; then nothing is written.
    """
    if dtype not in get_args(StoredType):
        raise ValueError(f"dtype: got {dtype!r}; expected one of {', '.join(map(repr, get_args(StoredType)))}.")
    run_dir = Path(run_dir)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        if not (run_dir / name).is_file():
            raise FileNotFoundError(f"{run_dir}: holds no {name}; expected the folder of a run or a checkpoint.")
    kind: type[ElmoForPreTraining | ElmoModel] = ElmoForPreTraining if with_lm_head else ElmoModel
    with new_folder(Path(out_dir)) as folder:
        model = kind.from_pretrained(run_dir, dtype=torch.float32)
        tokenizer = ElmoTokenizer.from_pretrained(run_dir)
        if len(tokenizer) != model.config.vocab_size:
            raise ValueError(
                f"{run_dir}: got a tokenizer of {len(tokenizer)} words and a model of {model.config.vocab_size}; "
                "expected those of one run."
            )
        _store_in(model, getattr(torch, dtype), run_dir)
        model.save_pretrained(folder)
        _finish_config(folder / "config.json")
        tokenizer.save_pretrained(folder)
        _copy_card(run_dir, folder, repo_id)
        if with_hdf5:
            export_hdf5(folder, folder / HDF5)
    if (run_dir / CARD).is_file():
        return ()
    return (
        f"there is no model card, since {run_dir} holds no {CARD}: a run writes it at its end into its own folder; "
        "publish that one, or write a card that says what the model was trained on",
    )


def _copy_card(run_dir: Path, folder: Path, repo_id: str | None) -> None:
    """The model card, where the run has one, and the figure that it shows."""
    if not (run_dir / CARD).is_file():
        return
    card = (run_dir / CARD).read_text(encoding="utf-8")
    if repo_id is not None:
        card = named_for_hub(card, repo_id)
    (folder / CARD).write_text(card, encoding="utf-8")
    if (run_dir / FIGURE).is_file():
        shutil.copy(run_dir / FIGURE, folder)


def _store_in(model: nn.Module, dtype: torch.dtype, run_dir: Path) -> None:
    """Convert in place, refusing what does not fit."""
    largest = torch.finfo(dtype).max
    for name, values in model.state_dict().items():
        if not torch.isfinite(values).all():
            raise ValueError(f"{run_dir}: {name} holds values that are no numbers; expected those of a sound run.")
        if values.abs().max() > largest:
            raise ValueError(
                f"{run_dir}: {name} holds {values.abs().max():g}; expected at most {largest:g}, the largest {dtype} "
                'number.  Store the weights with dtype="float32".'
            )
    model.to(dtype)


def _finish_config(config_file: Path) -> None:
    """Let transformers compute in float32, by default it does in the type that is stored; drop what Trainer left."""
    config = json.loads(config_file.read_text(encoding="utf-8"))
    config["dtype"] = "float32"
    config.pop("use_cache", None)
    config_file.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
