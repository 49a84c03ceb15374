"""The component with a model of the Hugging Face Hub, and with files that are none."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import spacy
from huggingface_hub import constants

from hf_elmo import ElmoEmbedder, ElmoModel, ElmoTokenizer
from tests.hf_elmo.models import random_head, random_model
from tests.hf_elmo.pretraining.hub_stand_in import HubStandIn, Repository, files_of, hub_of_this_process

NAME = "user/elmo"
TEXT = "The dog let it out."


@pytest.fixture(scope="module")
def models() -> dict[str, ElmoModel]:
    """By branch."""
    return {"main": random_model(), "v2": random_model(lstm_size=7)}


@pytest.fixture
def hub(models: dict[str, ElmoModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubStandIn]:
    for branch, model in models.items():
        model.save_pretrained(tmp_path / branch)
        ElmoTokenizer().save_pretrained(tmp_path / branch)
    with hub_of_this_process(monkeypatch, tmp_path) as hub:
        hub.repositories[NAME] = Repository(
            files=files_of(tmp_path / "main"), branches={"v2": files_of(tmp_path / "v2")}
        )
        yield hub


def vectors(model: object) -> np.ndarray:
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": model})
    return nlp(TEXT)._.elmo


def expected(model: ElmoModel) -> np.ndarray:
    return ElmoEmbedder(model).embed([[token.text for token in spacy.blank("en")(TEXT)]])[0]


def block(revision: str) -> dict[str, str]:
    return {"@architectures": "spacy_elmo.ElmoModel.v1", "name": NAME, "revision": revision}


def test_by_name_by_revision_and_without_a_network(
    hub: HubStandIn, models: dict[str, ElmoModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    for offline in (False, True):
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
        hub.requests.clear()
        np.testing.assert_allclose(vectors(NAME), expected(models["main"]), atol=1e-6)
        np.testing.assert_allclose(vectors(block("v2")), expected(models["v2"]), atol=1e-6)
        assert bool(hub.requests) != offline


def test_a_pipeline_is_saved_with_the_weights_of_the_hub(
    hub: HubStandIn, models: dict[str, ElmoModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": NAME})
    nlp.to_disk(tmp_path / "pipeline")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "another"))
    loaded = spacy.load(tmp_path / "pipeline")
    np.testing.assert_allclose(loaded(TEXT)._.elmo, expected(models["main"]), atol=1e-6)


def test_a_task_model_gives_its_bilm(hub: HubStandIn, tmp_path: Path) -> None:
    from hf_elmo import ElmoForTokenClassification

    head = random_head(ElmoForTokenClassification)
    head.save_pretrained(tmp_path / "tagger")
    hub.repositories["user/tagger"] = Repository(files=files_of(tmp_path / "tagger"))
    np.testing.assert_allclose(vectors("user/tagger"), expected(head.elmo), atol=1e-6)


def test_there_is_no_such_model(hub: HubStandIn) -> None:
    with pytest.raises(OSError, match=r"no ELMo model 'user/none'.*hf-elmo convert"):
        vectors("user/none")
    with pytest.raises(OSError, match=r"no ELMo model 'user/elmo'.*at revision 'v3'"):
        vectors(block("v3"))
    hub.repositories["user/gated"] = Repository(gated=True)
    with pytest.raises(OSError, match=r"'user/gated' is gated.*hf auth login"):
        vectors("user/gated")


@pytest.mark.parametrize("damage", ["cut off", "another model", "another configuration", "no JSON"])
def test_wrong_files(hub: HubStandIn, damage: str) -> None:
    repository = hub.repositories[NAME]
    files = repository.files
    change, message = {
        "cut off": ({"model.safetensors": files["model.safetensors"][:-9]}, "damaged or cut off"),
        "another model": ({"config.json": b'{"model_type": "bert"}'}, "got a model of type 'bert'; expected 'elmo'"),
        "another configuration": ({"config.json": repository.branches["v2"]["config.json"]}, "do not fit its config"),
        "no JSON": ({"config.json": b"{"}, "JSON"),
    }[damage]
    hub.repositories["user/wrong"] = Repository(files=files | change)
    with pytest.raises((OSError, ValueError), match=message) as caught:
        vectors("user/wrong")
    assert "user/wrong" in str(caught.value)
