"""`spacy_elmo.ElmoModel.v1`: docs in, every layer of the biLM out."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats3d

from hf_elmo.layer_cache import DEFAULT_FOLDER_BYTES
from spacy_elmo.annotation_cache import CacheOptions
from spacy_elmo.bilm import BiLM

InT = list[Doc]
OutT = list[Floats3d]


def build_elmo_model(
    name: str | None = None,
    revision: str | None = None,
    max_words_per_batch: int = 4096,
    precision: str = "fp32",
    device: str | None = None,
    cache_size: int = 0,
    cache_dir: str | None = None,
    cache_dir_size: int = DEFAULT_FOLDER_BYTES,
    store_dtype: str = "float32",
    save_weights: bool = True,
) -> Model[InT, OutT]:
    """A biLM as a thinc layer: the model of the component `elmo`, or a frozen source inside another component.

    The weights are saved with the component that owns the layer.  Options may be given here or, for the component
    `elmo`, next to its `model`.  Gradients end here; a biLM is fine-tuned by the
    component `elmo` with `frozen = false`.

    Args:
        name: folder or Hub id of an ELMo in Hugging Face's format; None is the one that comes with hf_elmo.
        revision: branch, tag or commit of a Hub id.
        max_words_per_batch: how many words, padding included, the biLM reads at once; less saves memory.
        precision: of the LSTMs' products: `"fp32"` (exact), `"bf16"` or `"int8"` (faster, rounded; not on every CPU).
        device: "cpu", "cuda", "cuda:0", "mps", or None for the one that spaCy uses.
        cache_size: how many bytes of sentences' layers are kept in memory, so that none is computed twice.
        cache_dir: folder in which they are kept for later runs and other programs.
        cache_dir_size: bound on that folder, in bytes.
        store_dtype: "float32" keeps what was computed, to the bit; "float16" takes half the room.
        save_weights: False saves where the weights came from, and their hash, in place of the weights.

    Shape:
        per doc (tokens, layers, width), token layer first; zeros at whitespace
    """
    bilm = BiLM(
        name=name,
        revision=revision,
        max_words_per_batch=max_words_per_batch,
        precision=precision,
        device=device,
        cache_options=CacheOptions(cache_size, cache_dir, cache_dir_size, store_dtype),
        save_weights=save_weights,
    )
    width, layers = bilm.sizes
    return Model("elmo_model", forward, init=init, dims={"nO": width, "nL": layers}, shims=[bilm])


def bilm_of(model: Model[InT, OutT]) -> BiLM:
    """The biLM of a layer that `build_elmo_model` made.

    Raises:
        ValueError: the model is another one.
    """
    shim = model.shims[0] if len(model.shims) == 1 else None
    if not isinstance(shim, BiLM):
        raise ValueError(
            f'model: got the architecture of a "{model.name}"; expected @architectures = "spacy_elmo.ElmoModel.v1", '
            "or a folder or Hub id."
        )
    return shim


def forward(model: Model[InT, OutT], docs: InT, is_train: bool) -> tuple[OutT, Callable[[OutT], InT]]:
    """Run the biLM, in training too without gradients."""
    return [model.ops.asarray3f(cast(Floats3d, layers)) for layers in bilm_of(model).layers_of(docs)], no_gradient


def no_gradient(d_layers: Sequence[Floats3d]) -> list[Any]:
    """Backpropagation ends here."""
    return []


def init(model: Model[InT, OutT], X: InT | None = None, Y: OutT | None = None) -> None:
    """Load the weights, so that a wrong name shows before training starts, and set the sizes."""
    config = bilm_of(model).model.config
    model.set_dim("nO", config.hidden_size)
    model.set_dim("nL", config.num_hidden_layers + 1)
