"""What the experiments read: data, the biLM, its layers, static vectors, the order of WordNet's senses."""

import functools
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from hf_elmo.cached_layers import CachedLayers
from hf_elmo.embedder import ElmoEmbedder
from hf_elmo.layer_cache import LayerCache, StoreDtype
from hf_elmo.model_source import default_model_path, load_model
from hf_elmo.modeling_elmo import ElmoModel
from hf_elmo.weights_hash import weights_hash

LAYER_FOLDER_BYTES = 40 * 10**9
STORE_DTYPE: StoreDtype = "float16"
# So many sentences' layers are held at once.
_SENTENCES = 2000


@dataclass(frozen=True)
class Resources:
    """Where everything is.

    Attributes:
        data: folder with `tasks` and `vectors`.
        model: folder or Hub id of the biLM; None is the one that ships with the package.
        cache: folder for layers, adapted models and the like; may be removed at any time.
        wordnet: the file index.sense of WordNet 3.0.
        device: "cpu" or "cuda".
    """

    data: Path
    model: str | None
    cache: Path
    wordnet: Path
    device: str = "cpu"

    @cached_property
    def bilm(self) -> ElmoModel:
        """The biLM, in evaluation mode."""
        model: ElmoModel = load_model(self.model).to(self.device)  # type: ignore[arg-type]
        return model

    @cached_property
    def model_hash(self) -> str:
        """Of the weights that the layers depend on."""
        return weights_hash(load_model(self.model), mix=False)

    @property
    def shown_model(self) -> str:
        """The model's name, without the path to it."""
        if self.model is None:
            return "shipped"
        return Path(self.model).name if Path(self.model).is_dir() else self.model

    @property
    def layer_folder(self) -> Path:
        """Layers by sentence; spaCy's component reads and writes the same."""
        return self.cache / "layers"

    def with_model(self, model: str) -> "Resources":
        """The same with another biLM."""
        return Resources(self.data, model, self.cache, self.wordnet, self.device)

    def path(self, *parts: str) -> Path:
        """A file of the data.

        Raises:
            FileNotFoundError: it is not there.
        """
        path = self.data.joinpath(*parts)
        if not path.exists():
            raise FileNotFoundError(f"{path}: not found; expected in the folder given by --data.")
        return path

    def fingerprint(self, part: str) -> str:
        """Sixteen digits of a file's or a folder's bytes; "missing" where it is not there."""
        return _fingerprint(self.wordnet if part == "wordnet" else self.data / part)

    def layers(self, sentences: Sequence[Sequence[str]]) -> Iterator[NDArray[np.float32]]:
        """Every layer of every sentence; each is computed once and kept in `layer_folder`.

        Shape:
            per sentence of n words (L + 1, n, 2P)
        """
        cache = LayerCache(folder=self.layer_folder, max_folder_bytes=LAYER_FOLDER_BYTES, store_dtype=STORE_DTYPE)
        cached = CachedLayers(ElmoEmbedder(self.bilm), cache)
        for start in range(0, len(sentences), _SENTENCES):
            yield from cached.embed(sentences[start : start + _SENTENCES])

    def streamed_layers(self, sentences: Sequence[Sequence[str]]) -> Iterator[NDArray[np.float32]]:
        """As `layers`, without keeping them: for text that is read once."""
        yield from ElmoEmbedder(self.bilm).embed_stream(sentences, layers="all")


@functools.cache
def _fingerprint(path: Path) -> str:
    if not path.exists():
        return "missing"
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(f"{file.relative_to(path) if path.is_dir() else ''}\n".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def use_threads(number: int) -> None:
    """Of PyTorch, so that words a second compare."""
    torch.set_num_threads(number)


def model_folder(model: str | None) -> Path | None:
    """The model's folder, where it is on this machine."""
    path = default_model_path() if model is None else Path(model)
    return path if path.is_dir() else None
