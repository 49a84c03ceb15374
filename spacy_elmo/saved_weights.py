"""The weights of the component `elmo` with a saved pipeline, or a reference to them."""

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

import srsly

from hf_elmo import ElmoModel
from hf_elmo.model_source import load_model, without_progress_bars
from spacy_elmo.upstream import Upstream
from spacy_elmo.weights_reference import WeightsReference

_FOLDER = "model"
_REFERENCE = "weights.json"


class SavedWeights(Upstream):
    """What spaCy calls to save and load a component with a biLM."""

    @property
    def bilm(self) -> ElmoModel:
        """The biLM with its scalar mix; loaded by the first use.

        Raises:
            OSError: there is no such model; the message says where it was looked for.
            ValueError: what is there is no ELMo model.
        """
        return self.shim.model

    @bilm.setter
    def bilm(self, bilm: ElmoModel) -> None:
        self.shim.model = bilm
        self._set_sizes()

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Save the weights below `path`, as a Hugging Face folder `model` that `AutoModel` loads too.

        With `save_weights = false` it is a file `weights.json` that says where they are.

        Raises:
            ValueError: the weights are to be referred to, but differ from those of their source.
        """
        if _FOLDER in exclude:
            return
        folder, reference = Path(path) / _FOLDER, Path(path) / _REFERENCE
        if self.shim.save_weights:
            with without_progress_bars():  # spaCy prints a table of its own while it trains
                self.bilm.save_pretrained(folder)
            reference.unlink(missing_ok=True)
        else:
            content = self.shim.reference()._asdict()
            Path(path).mkdir(parents=True, exist_ok=True)
            srsly.write_json(reference, content)
            shutil.rmtree(folder, ignore_errors=True)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Self:
        """Load the weights that `to_disk` saved or referred to.

        Raises:
            FileNotFoundError: the folder is not there.
            OSError: weights that are referred to are not there.
            ValueError: weights that are referred to have changed; the layers have other sizes than listeners expect.
        """
        if _FOLDER in exclude:
            return self
        folder, reference = Path(path) / _FOLDER, Path(path) / _REFERENCE
        if reference.is_file():
            self._load_reference(lambda: WeightsReference.from_json(srsly.read_json(reference)))
            return self
        if not (folder / "config.json").is_file():
            raise FileNotFoundError(
                f"component {self.name!r}: got no saved model at {folder}; expected config.json and "
                f"model.safetensors there. Copy the whole folder of the pipeline, or load it with "
                f"exclude=[{self.name!r}] and add the component anew."
            )
        self.bilm = load_model(folder)
        self.check_listeners()
        return self

    def _load_reference(self, read: Callable[[], WeightsReference]) -> None:
        try:
            self.shim.load_reference(read())
        except (OSError, ValueError) as error:
            raise type(error)(f"component {self.name!r}: {error}") from error
        self._set_sizes()
        self.check_listeners()

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The configuration and weights, as the two files of a Hugging Face folder; or a reference to them."""
        return srsly.msgpack_dumps({}) if _FOLDER in exclude else self.shim.to_bytes()

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> Self:
        """Load what `to_bytes` gave.

        Raises:
            ValueError: the bytes hold no model, or refer to one that has changed.
            OSError: they refer to one that is not there.
        """
        if _FOLDER in exclude:
            return self
        try:
            self.shim.from_bytes(bytes_data)
        except (OSError, ValueError) as error:
            raise type(error)(f"component {self.name!r}: {error}") from error
        self._set_sizes()
        self.check_listeners()
        return self

    def _set_sizes(self) -> None:
        """Say the sizes of weights that came in place of the configured ones."""
        self.model.set_dim("nO", self.bilm.config.hidden_size, force=True)
        self.model.set_dim("nL", self.bilm.config.num_hidden_layers + 1, force=True)
