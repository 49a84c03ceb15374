"""How a program that does not import hf_elmo finds its classes: `auto_map` in the configuration, and the file it names.

With `trust_remote_code=True` transformers runs a file of the model's own folder.  Here that file
([`hf_elmo_classes`][hf_elmo.hf_elmo_classes]) only imports the installed package, so that weights never carry old code.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hf_elmo.new_file import write_file

SHIM = "hf_elmo_classes.py"
_MODULE = SHIM.removesuffix(".py")
_CLASSES = {
    "AutoConfig": "ElmoConfig",
    "AutoModel": "ElmoModel",
    "AutoModelForPreTraining": "ElmoForPreTraining",
    "AutoModelForQuestionAnswering": "ElmoForQuestionAnswering",
    "AutoModelForSequenceClassification": "ElmoForSequenceClassification",
    "AutoModelForTokenClassification": "ElmoForTokenClassification",
}


def model_auto_map(present: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a config.json says of its classes.

    Args:
        present: an `auto_map` that is there already; what a class outside the package added to it is kept.
    """
    own = {auto: f"{_MODULE}.{name}" for auto, name in _CLASSES.items()} | tokenizer_auto_map()
    return own | {auto: name for auto, name in (present or {}).items() if not _is_own(name)}


def tokenizer_auto_map() -> dict[str, Any]:
    """What a tokenizer_config.json says of its class: there is a fast tokenizer and no slow one."""
    return {"AutoTokenizer": [None, f"{_MODULE}.ElmoTokenizer"]}


def write_shim(folder: str | os.PathLike[str]) -> str:
    """Write the file that `auto_map` names, and return its path."""
    path = Path(folder, SHIM)
    write_file(path, Path(__file__).with_name(SHIM).read_text(encoding="utf-8"))
    return str(path)


class FoundByAutoMap:
    """A class of the package: transformers copies none of its code into a saved folder, where the shim lies."""

    @classmethod
    def register_for_auto_class(cls, auto_class: Any = None) -> None:
        """As in the base class, for classes outside the package, whose code has to go with the weights."""
        if not cls.__module__.startswith("hf_elmo."):
            super().register_for_auto_class(*(() if auto_class is None else (auto_class,)))  # type: ignore[misc]


def _is_own(reference: Any) -> bool:
    """Whether a class is of the shim, of this folder or of another repository (`user/name--module.Class`)."""
    names = reference if isinstance(reference, list | tuple) else [reference]
    return any(str(name).rpartition("--")[2].startswith(f"{_MODULE}.") for name in names)
