import json
from pathlib import Path

import pytest
import torch

from hf_elmo.model_source import default_model_path, is_shipped, load_language_model, load_model, located
from tests.hf_elmo.models import ids, random_lm, random_model


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def test_a_folder(tmp_path: Path) -> None:
    model = random_model()
    model.save_pretrained(tmp_path)
    loaded = load_model(tmp_path)
    assert not loaded.training
    torch.testing.assert_close(loaded(*ids([["a"]])).last_hidden_state, model(*ids([["a"]])).last_hidden_state)


def test_a_language_model_gives_its_features(tmp_path: Path) -> None:
    random_lm().save_pretrained(tmp_path)
    assert load_model(tmp_path).scalar_mix is not None


def test_the_shipped_model_and_its_softmax_are_small_and_compute_in_single_precision() -> None:
    folder = default_model_path()
    assert sum(path.stat().st_size for path in folder.glob("*.safetensors")) <= 15 * 2**20
    assert json.loads((folder / "config.json").read_text())["dtype"] == "float32"
    assert load_model().dtype == torch.float32
    model, has_softmax = load_language_model()
    assert has_softmax
    assert model.lm_head.weight.shape == (20_000, 128)


@pytest.mark.parametrize("name", ["nobody/no-elmo", "no-elmo", "/no/such/folder"])
def test_an_unknown_name_says_where_it_was_looked_for(name: str) -> None:
    with pytest.raises(OSError, match=f"no ELMo model '{name}'") as caught:
        load_model(name)
    for part in ("folder", "Hub", "cache", "HF_HUB_OFFLINE", 'shipped model ("default")', "hf-elmo convert"):
        assert part in str(caught.value)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"without a config\.json"):
        load_model(tmp_path)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    random_model().save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(OSError, match=r"without weights; expected model\.safetensors .* Copy the whole folder"):
        load_model(tmp_path)


def test_a_model_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ValueError, match="type 'bert'; expected 'elmo'"):
        load_model(tmp_path)


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    random_model().save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"model\.safetensors") as caught:
        load_model(tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("changes", [{"lstm_size": 12}, {"num_hidden_layers": 3}])
def test_weights_of_another_configuration_are_refused(changes: dict[str, int], tmp_path: Path) -> None:
    random_model().save_pretrained(tmp_path)
    random_model(**changes).config.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"layers\.\d.* of another shape; expected both files from one model"):
        load_model(tmp_path)


def test_a_configuration_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"a":')
    with pytest.raises(ValueError, match="cannot be read as JSON"):
        load_model(tmp_path)


def test_pickled_weights_are_not_loaded(tmp_path: Path) -> None:
    model = random_model()
    model.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(OSError, match=r"model\.safetensors"):
        load_model(tmp_path)


def test_an_empty_name_is_no_folder() -> None:
    with pytest.raises(ValueError, match="got an empty name"):
        load_model("")


def test_the_shipped_model_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shipped, named = load_model(), load_model("default")
    assert all(torch.equal(values, named.state_dict()[name]) for name, values in shipped.state_dict().items())
    assert load_language_model("default")[1]
    assert located("default") == located(None) == str(default_model_path())
    random_model().save_pretrained("default")
    assert load_model("default").config.lstm_size == random_model().config.lstm_size != shipped.config.lstm_size
    assert (is_shipped("default"), is_shipped(None), located("default")) == (False, True, "default")
