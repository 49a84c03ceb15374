"""Damaged, cut off and foreign files: one clear error, by whatever class they are loaded."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    BertConfig,
    BertModel,
)

from hf_elmo import (
    ElmoEmbedder,
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
)
from hf_elmo.model_source import load_language_model, load_model
from tests.hf_elmo.models import random_head, random_model

OWN = [
    ElmoModel,
    ElmoForPreTraining,
    ElmoForTokenClassification,
    ElmoForSequenceClassification,
    ElmoForQuestionAnswering,
]
AUTO = [
    AutoModel,
    AutoModelForTokenClassification,
    AutoModelForSequenceClassification,
    AutoModelForQuestionAnswering,
]
LOADERS: dict[str, Callable[[Path], Any]] = {kind.__name__: kind.from_pretrained for kind in [*OWN, *AUTO]}
LOADERS |= {
    "load_model": load_model,
    "load_language_model": load_language_model,
    "ElmoEmbedder": ElmoEmbedder.from_pretrained,
}
by_every_route = pytest.mark.parametrize("route", LOADERS)
NO_FIT = "got weights that do not fit its config.json"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    random_model().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    BertModel(BertConfig(vocab_size=20, **sizes)).save_pretrained(folder)
    return folder


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    """A copy, to be spoilt."""
    return Path(shutil.copytree(sound, tmp_path / "model"))


def refused(route: str, folder: Path, *parts: str, kind: type[Exception] = ValueError) -> None:
    with pytest.raises(kind) as caught:
        LOADERS[route](folder)
    message = str(caught.value)
    for part in parts:
        assert part in message
    assert len(message) < 700


@by_every_route
@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content[:100],
        lambda content: content[:-100],
        lambda content: b"",
        lambda content: b"<html>Not found</html>" * 20,
        lambda content: b"\xff" * 8 + content[8:],
        lambda content: content[:8] + b"}" + content[9:],
    ],
    ids=["header cut off", "end cut off", "empty", "a web page", "length of the header", "no JSON"],
)
def test_damaged_weights(route: str, spoil: Callable[[bytes], bytes], folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(spoil(weights.read_bytes()))
    refused(route, folder, str(folder), "model.safetensors", "damaged or cut off", "copy or download it again")


@by_every_route
def test_no_weights(route: str, folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    refused(route, folder, str(folder), "model.safetensors", kind=OSError)


@by_every_route
def test_weights_of_another_architecture(route: str, folder: Path, bert: Path) -> None:
    """Under a configuration of ELMo; nothing would be loaded, and every weight random."""
    shutil.copy(bert / "model.safetensors", folder)
    refused(route, folder, str(folder), NO_FIT, "character_cnn.convolutions.0.bias")


@by_every_route
@pytest.mark.parametrize("changes", [{"lstm_size": 12}, {"num_hidden_layers": 3}], ids=str)
def test_weights_of_other_sizes(route: str, changes: dict[str, int], folder: Path) -> None:
    random_model(**changes).config.save_pretrained(folder)
    refused(route, folder, str(folder), NO_FIT)


@by_every_route
def test_one_weight_is_missing(route: str, folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["layers.1.backward_lstm.gates.bias"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    refused(route, folder, str(folder), NO_FIT, "layers.1.backward_lstm.gates.bias is missing")


@by_every_route
@pytest.mark.parametrize(
    ("content", "parts"),
    [('{"a":', ["config.json", "JSON"]), ("", ["config.json", "JSON"]), ("\0\1", ["config.json", "JSON"])],
    ids=["cut off", "empty", "binary"],
)
def test_a_configuration_that_is_no_json(route: str, content: str, parts: list[str], folder: Path) -> None:
    (folder / "config.json").write_text(content)
    refused(route, folder, str(folder), *parts, kind=(OSError, ValueError))  # type: ignore[arg-type]


@by_every_route
@pytest.mark.parametrize("content", ["[1, 2]", "{}", '"elmo"', '{"lstm_size": 4}'])
def test_a_configuration_of_nothing(route: str, content: str, folder: Path) -> None:
    (folder / "config.json").write_text(content)
    refused(route, folder, str(folder), kind=(OSError, ValueError))  # type: ignore[arg-type]


@by_every_route
@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"lstm_size": -3}, ["lstm_size: got -3"]),
        ({"lstm_size": "big"}, ["lstm_size", "expected int", "'big'"]),
        ({"character_filters": [[1]]}, ["character_filters: got [1]"]),
        ({"initial_state": "hot"}, ["initial_state: got 'hot'"]),
        ({"lstm_szie": 4}, ["'lstm_szie'", "did you mean 'lstm_size'"]),
    ],
    ids=str,
)
def test_a_wrong_value(route: str, change: dict[str, Any], parts: list[str], folder: Path) -> None:
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(content | change))
    refused(route, folder, *parts)


@pytest.mark.parametrize("route", [route for route in LOADERS if not route.startswith("Auto")])
def test_another_model(route: str, bert: Path) -> None:
    """Transformers would read BERT's options as ELMo's; its own auto classes load it as what it is."""
    refused(route, bert, str(bert), "got a model of type 'bert'; expected 'elmo'", "hf-elmo convert")


def test_a_head_of_another_size_says_what_to_do(tmp_path: Path) -> None:
    random_head(ElmoForTokenClassification).save_pretrained(tmp_path)
    for load in (ElmoForTokenClassification.from_pretrained, AutoModelForTokenClassification.from_pretrained):
        with pytest.raises(ValueError, match=r"classifier.bias, classifier.weight of another shape.*num_labels") as e:
            load(tmp_path, num_labels=7)
        assert "ignore_mismatched_sizes=True" in str(e.value)
        assert load(tmp_path, num_labels=7, ignore_mismatched_sizes=True).classifier.out_features == 7


def test_the_report_is_left_to_who_asks_for_it(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["layers.1.backward_lstm.gates.bias"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    _, report = ElmoModel.from_pretrained(folder, output_loading_info=True)
    assert report["missing_keys"] == {"layers.1.backward_lstm.gates.bias"}
