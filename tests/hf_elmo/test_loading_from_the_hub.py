"""Models by their ids: download, cache, revision, offline, and what is said where there is none."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import constants
from transformers import AutoModel, AutoModelForTokenClassification, AutoTokenizer

from hf_elmo import ElmoConfig, ElmoEmbedder, ElmoForTokenClassification, ElmoModel, ElmoTokenizer
from hf_elmo.auto_map import SHIM, model_auto_map
from hf_elmo.model_source import load_language_model, load_model
from hf_elmo.pretraining.source_model import SourceModel
from tests.hf_elmo.models import ids, random_head, random_lm, random_model
from tests.hf_elmo.pretraining.hub_stand_in import (
    COMMIT,
    TOKEN,
    HubStandIn,
    Repository,
    commit_of,
    files_of,
    hub_of_this_process,
)

REPOSITORY = Path(__file__).resolve().parents[2]
NAME = "user/elmo"
WORDS = ["<S>", "</S>", "<UNK>", "the", "dog"]


def vectors(model: ElmoModel) -> torch.Tensor:
    with torch.no_grad():
        return model(*ids([["The", "dog"], ["a"]])).last_hidden_state


@pytest.fixture(scope="module")
def models() -> dict[str, ElmoModel]:
    """By branch."""
    return {"main": random_model(), "v2": random_model(lstm_size=7)}


@pytest.fixture(scope="module")
def repository(models: dict[str, ElmoModel], tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Both on the Hub, the first also in a subfolder."""
    folder = tmp_path_factory.mktemp("models")
    for branch, model in models.items():
        model.save_pretrained(folder / branch)
        ElmoTokenizer(WORDS).save_pretrained(folder / branch)
    return Repository(
        files=files_of(folder / "main") | files_of(folder / "main", "inner/"),
        large={"model.safetensors", "inner/model.safetensors"},
        branches={"v2": files_of(folder / "v2")},
    )


@pytest.fixture
def hub(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubStandIn]:
    with hub_of_this_process(monkeypatch, tmp_path) as hub:
        hub.repositories[NAME] = repository
        yield hub


def downloads(hub: HubStandIn) -> list[str]:
    """Files that were sent, in the order of the requests."""
    found = (re.fullmatch(r"GET /user/[^/]+/resolve/[^/]+/(.+)", request) for request in hub.requests)
    return [match[1] for match in found if match]


def test_what_lies_beside_the_weights(hub: HubStandIn) -> None:
    source = SourceModel(NAME, random_lm(), ElmoTokenizer(WORDS), has_head=False)
    found = source.file("tokenizer_config.json")
    assert found is not None
    assert found.read_bytes() == hub.repositories[NAME].files["tokenizer_config.json"]
    assert source.file("README.md") is None


def test_a_model_is_downloaded_once(hub: HubStandIn, models: dict[str, ElmoModel], tmp_path: Path) -> None:
    for _ in range(2):
        assert torch.equal(vectors(AutoModel.from_pretrained(NAME)), vectors(models["main"]))
        assert torch.equal(vectors(ElmoModel.from_pretrained(NAME)), vectors(models["main"]))
        assert torch.equal(vectors(load_model(NAME)), vectors(models["main"]))
    assert sorted(set(downloads(hub)) & set(hub.repositories[NAME].files)) == ["config.json", "model.safetensors"]
    assert downloads(hub).count("model.safetensors") == downloads(hub).count("config.json") == 1
    cached = tmp_path / "cache" / "models--user--elmo" / "snapshots" / COMMIT
    assert (cached / "model.safetensors").read_bytes() == hub.repositories[NAME].files["model.safetensors"]


def test_the_tokenizer_comes_with_its_vocabulary(hub: HubStandIn) -> None:
    for kind in (AutoTokenizer, ElmoTokenizer):
        tokenizer = kind.from_pretrained(NAME)
        assert type(tokenizer) is ElmoTokenizer
        assert tokenizer("the dog")["input_ids"] == [1, 4, 5, 2]
    assert downloads(hub).count("tokenizer.json") == 1


def test_the_embedder(hub: HubStandIn, models: dict[str, ElmoModel]) -> None:
    for revision, model in ((None, models["main"]), ("v2", models["v2"])):
        embedded = ElmoEmbedder.from_pretrained(NAME, revision=revision, precision="fp32").embed([["The", "dog"]])
        np.testing.assert_allclose(embedded[0], vectors(model)[0, 1:3], atol=1e-6)


@pytest.mark.parametrize("revision", ["v2", commit_of("v2")])
def test_a_revision(hub: HubStandIn, models: dict[str, ElmoModel], revision: str) -> None:
    """A branch or a commit; main stays what it is."""
    for load in (AutoModel.from_pretrained, ElmoModel.from_pretrained, load_model):
        assert torch.equal(vectors(load(NAME, revision=revision)), vectors(models["v2"]))
    assert torch.equal(vectors(load_model(NAME)), vectors(models["main"]))
    assert AutoTokenizer.from_pretrained(NAME, revision=revision).get_vocab()["dog"] == 5


def test_a_subfolder(hub: HubStandIn, models: dict[str, ElmoModel]) -> None:
    assert torch.equal(vectors(AutoModel.from_pretrained(NAME, subfolder="inner")), vectors(models["main"]))
    assert AutoTokenizer.from_pretrained(NAME, subfolder="inner").get_vocab()["dog"] == 5


def test_without_a_network_the_cache_is_used(
    hub: HubStandIn, models: dict[str, ElmoModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    for revision in ("main", "v2"):
        load_model(NAME, revision=revision)
        AutoTokenizer.from_pretrained(NAME, revision=revision)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub.requests.clear()
    for revision, model in models.items():
        for load in (AutoModel.from_pretrained, load_model):
            assert torch.equal(vectors(load(NAME, revision=revision)), vectors(model))
        assert AutoTokenizer.from_pretrained(NAME, revision=revision).get_vocab()["dog"] == 5
    embedded = ElmoEmbedder.from_pretrained(NAME).embed([["The", "dog"]])
    np.testing.assert_allclose(embedded[0], vectors(models["main"])[0, 1:3], atol=1e-6)
    with pytest.raises(OSError, match=r"no ELMo model 'user/other'.*HF_HUB_OFFLINE is set"):
        load_model("user/other")
    with pytest.raises(OSError, match=r"no ELMo model 'user/elmo'.*at revision 'v3'"):
        load_model(NAME, revision="v3")
    assert hub.requests == []


@pytest.mark.slow
def test_the_variable_of_the_environment_and_the_file_of_the_classes(
    hub: HubStandIn, models: dict[str, ElmoModel], tmp_path: Path
) -> None:
    """Programs that never name hf_elmo: the first downloads, the second is without a network."""
    program = (
        "import torch, sys\nfrom transformers import AutoModel, AutoTokenizer\n"
        "tokenizer = AutoTokenizer.from_pretrained('user/elmo', trust_remote_code=True)\n"
        "model = AutoModel.from_pretrained('user/elmo', trust_remote_code=True)\n"
        "with torch.no_grad(): output = model(**tokenizer('The dog', return_tensors='pt'))\n"
        "print('RESULT', output.last_hidden_state.double().sum().item())\n"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    own = {"PYTHONPATH": str(REPOSITORY), "HF_HOME": str(tmp_path / "home"), "HF_ENDPOINT": hub.endpoint}
    expected = vectors(models["main"])[0, :4].double().sum().item()
    for offline, asked in (("0", True), ("1", False)):
        hub.requests.clear()
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**kept, **own, "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": offline, "NO_PROXY": "127.0.0.1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert float(done.stdout.split("RESULT")[1]) == pytest.approx(expected, rel=1e-5)
        assert bool(hub.requests) == asked
        assert (SHIM in downloads(hub)) == asked


class TestErrors:
    @pytest.mark.parametrize("load", [load_model, load_language_model, ElmoEmbedder.from_pretrained])
    def test_there_is_no_such_repository(self, hub: HubStandIn, load) -> None:
        with pytest.raises(OSError, match=r"no ELMo model 'user/none': looked for the folder .* and for that id") as e:
            load("user/none")
        assert "\n" not in str(e.value)

    def test_there_is_no_such_revision(self, hub: HubStandIn) -> None:
        with pytest.raises(OSError, match=r"no ELMo model 'user/elmo'.*at revision 'v3'"):
            load_model(NAME, revision="v3")
        with pytest.raises(OSError, match="v3 is not a valid git identifier"):
            AutoModel.from_pretrained(NAME, revision="v3")

    @pytest.mark.parametrize("token", [None, "hf_of_somebody_else"])
    def test_a_gated_repository(self, hub: HubStandIn, token, monkeypatch: pytest.MonkeyPatch) -> None:
        hub.repositories["user/gated"] = Repository(files=hub.repositories[NAME].files, gated=True)
        if token is not None:
            monkeypatch.setenv("HF_TOKEN", token)
        with pytest.raises(OSError, match=r"'user/gated' is gated.*ask for access.*hf auth login") as e:
            load_model("user/gated")
        assert "\n" not in str(e.value)
        with pytest.raises(OSError, match="gated repo"):
            AutoModel.from_pretrained("user/gated")
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        load_model("user/gated")

    def test_a_private_repository_is_there_for_its_owner(
        self, hub: HubStandIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hub.repositories["user/private"] = Repository(files=hub.repositories[NAME].files, private=True)
        with pytest.raises(OSError, match=r"no ELMo model 'user/private'.*private"):
            load_model("user/private")
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        load_model("user/private")

    def test_a_file_is_not_there(self, hub: HubStandIn) -> None:
        files = hub.repositories[NAME].files
        for missing in ("config.json", "model.safetensors"):
            part = {path: content for path, content in files.items() if path != missing}
            hub.repositories[f"user/no-{missing}"] = Repository(files=part)
        with pytest.raises(OSError, match=r"user/no-config\.json: got no config\.json"):
            ElmoModel.from_pretrained("user/no-config.json")
        with pytest.raises(OSError, match=r"no ELMo model 'user/no-config\.json'"):
            load_model("user/no-config.json")
        for load in (AutoModel.from_pretrained, load_model):
            with pytest.raises(OSError, match=r"user/no-model.safetensors does not appear to have a file named"):
                load("user/no-model.safetensors")

    def test_damaged_weights(self, hub: HubStandIn) -> None:
        files = hub.repositories[NAME].files
        hub.repositories["user/cut"] = Repository(files=files | {"model.safetensors": files["model.safetensors"][:99]})
        for load in (AutoModel.from_pretrained, AutoModelForTokenClassification.from_pretrained, load_model):
            with pytest.raises(ValueError, match=r"user/cut: cannot read its model\.safetensors, which is damaged"):
                load("user/cut")

    def test_another_model(self, hub: HubStandIn) -> None:
        hub.repositories["user/bert"] = Repository(files={"config.json": b'{"model_type": "bert"}'})
        for load in (load_model, ElmoModel.from_pretrained, ElmoConfig.from_pretrained):
            with pytest.raises(ValueError, match="user/bert: got a model of type 'bert'; expected 'elmo'"):
                load("user/bert")


class TestPushing:
    @pytest.fixture(autouse=True)
    def owner(self, hub: HubStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HF_TOKEN", TOKEN)

    def test_what_is_pushed_has_the_file_of_the_classes(self, hub: HubStandIn) -> None:
        model = random_head(ElmoForTokenClassification)
        model.push_to_hub("user/tagger")
        pushed = hub.repositories["user/tagger"].files
        assert pushed.keys() == {"README.md", "config.json", "model.safetensors", SHIM}
        ElmoTokenizer(WORDS).push_to_hub("user/tagger")
        assert pushed.keys() >= {"tokenizer.json", "tokenizer_config.json"}
        assert AutoModel.from_pretrained("user/tagger").config.auto_map == model_auto_map()
        loaded = AutoModelForTokenClassification.from_pretrained("user/tagger")
        assert torch.equal(loaded.classifier.weight, model.classifier.weight)
        loaded.push_to_hub("user/again")
        assert hub.repositories["user/again"].files[SHIM] == pushed[SHIM]

    @pytest.mark.parametrize("what", [random_model, lambda: ElmoTokenizer(WORDS), ElmoConfig])
    def test_while_it_is_saved(self, hub: HubStandIn, what, tmp_path: Path) -> None:
        """Also a second time, into a folder that has the file."""
        for name in ("user/first", "user/second"):
            what().save_pretrained(tmp_path / "out", push_to_hub=True, repo_id=name)
            assert SHIM in hub.repositories[name].files
