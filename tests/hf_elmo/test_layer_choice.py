from typing import Any

import numpy as np
import pytest

from hf_elmo import ElmoModel
from hf_elmo.embedder import ElmoEmbedder
from hf_elmo.layer_choice import Layers
from tests.hf_elmo.models import ids, layers_of, random_model, tiny_config

SENTENCES = [["The", "dog"], ["a", "sharp", "bark", "."], []]


def _check(model: ElmoModel, layers: Layers, expected: list[np.ndarray]) -> None:
    for found, wanted in zip(ElmoEmbedder(model).embed(SENTENCES, layers=layers), expected, strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


def test_each_choice_is_made_of_the_models_layers() -> None:
    model = random_model()
    layers = layers_of(model, SENTENCES)  # (3, n, 2P) each
    _check(model, "all", layers)
    _check(model, "top", [layer[2] for layer in layers])
    _check(model, "token", [layer[0] for layer in layers])
    _check(model, "average", [layer.mean(axis=0) for layer in layers])
    _check(model, [1], [layer[[1]] for layer in layers])
    _check(model, (2, 0, 2), [layer[[2, 0, 2]] for layer in layers])


@pytest.mark.parametrize(
    "changes",
    [
        {"mix_layers": [0]},
        {"mix_layers": [2, 1]},
        {"mix_layer_norm": "token"},
        {"mix_layer_norm": "token", "mix_layers": [1, 0]},
        {"mix_layer_norm": "batch"},
    ],
    ids=str,
)
def test_the_mix_is_the_models(changes: dict[str, Any]) -> None:
    model = random_model(**changes)
    sentences = [["The", "dog"]] if changes.get("mix_layer_norm") == "batch" else SENTENCES
    for sentence, found in zip(sentences, ElmoEmbedder(model).embed(sentences), strict=True):
        expected = model(*ids([sentence])).last_hidden_state[0, 1:-1].detach()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_a_model_without_a_mix_gives_its_top_layer() -> None:
    model = ElmoModel(tiny_config(), add_scalar_mix=False).eval()
    layers = layers_of(model, SENTENCES)
    _check(model, "mix", [layer[2] for layer in layers])


@pytest.mark.parametrize("batch", [[["a"]], [["a"], ["b"]]], ids=["a sentence", "two"])
def test_layers_below_those_wanted_are_all_that_is_computed(
    batch: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = random_model(mix_layers=[0, 1])
    embedder = ElmoEmbedder(model)
    embedder.embed([["a"]])
    read: list[int] = []
    bilm = embedder._current_weights().bilm
    for depth, (packed, paired) in enumerate(zip(bilm._packed, bilm._paired, strict=True)):
        for lstm in (*packed, paired):
            original = lstm.read
            monkeypatch.setattr(lstm, "read", lambda *a, d=depth, f=original: read.append(d) or f(*a))
    depths = {}
    for layers in ("token", "mix", "top", [1, 0]):
        read.clear()
        embedder.embed(batch, layers=layers)  # type: ignore[arg-type]
        depths[str(layers)] = sorted(set(read))
    assert depths == {"token": [], "mix": [0], "top": [0, 1], "[1, 0]": [0]}


@pytest.mark.parametrize(
    ("layers", "error", "message"),
    [
        ("first", ValueError, "got 'first'; expected one of 'mix', 'all', 'top', 'token', 'average', or a list"),
        ([3], ValueError, r"got \[3\]; .* from 0 \(token layer\) to 2 \(top\)"),
        ([-1], ValueError, r"got \[-1\]"),
        ([True], ValueError, r"got \[True\]"),
        ([], ValueError, r"got \[\]"),
        (1, TypeError, "got 1; expected"),
    ],
)
def test_layers_that_are_not_there_are_refused(layers: Any, error: type[Exception], message: str) -> None:
    embedder = ElmoEmbedder(random_model())
    for call in (embedder.embed, embedder.embed_stream):
        with pytest.raises(error, match=f"layers: {message}"):
            call([["a"]], layers=layers)
