import json
import shutil

import numpy as np
import pytest
import spacy
import torch

from hf_elmo import ElmoModel
from hf_elmo.weights_hash import weights_hash
from tests.spacy_elmo.conftest import LAYERS, WIDTH
from tests.spacy_elmo.toy_tasks import add_consumer, make_examples, mixed_block, source_block

TEXT = "The dog let out a sharp bark ."


@pytest.fixture
def source(tiny_folder, tmp_path):
    """A folder of weights that a test may change."""
    return shutil.copytree(tiny_folder, tmp_path / "weights")


def nlp_of(source, *, block: bool = False, **config):
    model = {"@architectures": "spacy_elmo.ElmoModel.v1", "name": str(source)} if block else str(source)
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": model, "save_weights": False, **config})
    return nlp


def change(folder):
    model = ElmoModel.from_pretrained(folder)
    with torch.no_grad():
        next(model.parameters()).mul_(1.001)
    model.save_pretrained(folder)


@pytest.mark.parametrize("block", [False, True])
def test_a_reference_takes_the_weights_place(source, tmp_path, block):
    nlp = nlp_of(source, block=block)
    expected = nlp(TEXT)
    nlp.to_disk(tmp_path / "saved")
    assert [path.name for path in (tmp_path / "saved" / "elmo").iterdir()] == ["weights.json"]
    content = json.loads((tmp_path / "saved" / "elmo" / "weights.json").read_text())
    sha256 = weights_hash(ElmoModel.from_pretrained(source))
    assert content == {"source": str(source), "revision": None, "sha256": sha256}
    np.testing.assert_array_equal(spacy.load(tmp_path / "saved")(TEXT)._.elmo, expected._.elmo)
    assert len(nlp.get_pipe("elmo").to_bytes()) < 1000
    data = nlp.to_bytes()
    loaded = nlp_of(source, block=block).from_bytes(data)
    np.testing.assert_array_equal(loaded(TEXT)._.elmo, expected._.elmo)


def test_the_shipped_model_can_be_referred_to(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"save_weights": False})
    expected = nlp(TEXT)
    nlp.to_disk(tmp_path)
    assert json.loads((tmp_path / "elmo" / "weights.json").read_text())["source"] is None
    assert sum(path.stat().st_size for path in (tmp_path / "elmo").rglob("*")) < 1000
    np.testing.assert_array_equal(spacy.load(tmp_path)(TEXT)._.elmo, expected._.elmo)


@pytest.mark.parametrize("how", ["disk", "bytes"])
def test_changed_weights_are_an_error(source, tmp_path, how):
    nlp = nlp_of(source)
    nlp.to_disk(tmp_path / "saved")
    data = nlp.to_bytes()
    change(source)
    message = r"component 'elmo': the weights .* have changed: got SHA-256 \w{64} from '.*weights'"
    with pytest.raises(ValueError, match=message):
        spacy.load(tmp_path / "saved") if how == "disk" else nlp_of(source).from_bytes(data)


@pytest.mark.parametrize("how", ["disk", "bytes"])
def test_missing_weights_are_an_error_and_can_be_found_elsewhere(source, tmp_path, how):
    nlp = nlp_of(source, block=how == "bytes")
    expected = nlp(TEXT)
    nlp.to_disk(tmp_path / "saved")
    data = nlp.to_bytes()
    moved = source.rename(tmp_path / "moved")
    message = r"component 'elmo': the weights .* are missing: no ELMo model .*components\.elmo\.model"
    with pytest.raises(OSError, match=message):
        spacy.load(tmp_path / "saved") if how == "disk" else nlp_of(source).from_bytes(data)
    key = "components.elmo.model" if how == "disk" else "components.elmo.model.name"
    loaded = spacy.load(tmp_path / "saved", config={key: str(moved)})
    np.testing.assert_array_equal(loaded(TEXT)._.elmo, expected._.elmo)
    change(moved)
    with pytest.raises(ValueError, match="have changed"):
        spacy.load(tmp_path / "saved", config={key: str(moved)})


def test_weights_that_differ_from_their_source_are_not_referred_to(source, tmp_path):
    nlp = nlp_of(source)
    with torch.no_grad():
        nlp.get_pipe("elmo").bilm.scalar_mix.gamma.fill_(3.0)
    with pytest.raises(ValueError, match=r"save_weights: got false for weights that differ from those of '.*weights'"):
        nlp.to_disk(tmp_path / "saved")


def test_weights_that_came_from_elsewhere_but_are_the_same_can_be_referred_to(source, tmp_path):
    nlp = nlp_of(source)
    nlp.get_pipe("elmo").bilm = ElmoModel.from_pretrained(source)
    nlp.to_disk(tmp_path / "saved")
    assert spacy.load(tmp_path / "saved")(TEXT)._.elmo.any()


def test_saving_again_in_the_other_way_leaves_nothing_behind(source, tmp_path):
    whole, referring = nlp_of(source, save_weights=True), nlp_of(source)
    for nlp, expected in ((whole, "model"), (referring, "weights.json"), (whole, "model")):
        nlp.to_disk(tmp_path / "saved")
        assert [path.name for path in (tmp_path / "saved" / "elmo").iterdir()] == [expected]
        assert spacy.load(tmp_path / "saved")(TEXT)._.elmo.any()


def test_a_trained_bilm_is_saved(source):
    with pytest.raises(ValueError, match="frozen = false with save_weights = false"):
        nlp_of(source, frozen=False)


def test_a_standalone_source_can_refer_to_its_weights(source, tmp_path):
    nlp = spacy.blank("en")
    block = {**source_block("standalone", str(source), width=WIDTH, layers=LAYERS), "save_weights": False}
    add_consumer(nlp, "tagger", mixed_block(block))
    nlp.initialize(lambda: make_examples(nlp))
    expected = [token.tag_ for token in nlp(TEXT)]
    nlp.to_disk(tmp_path / "saved")
    assert (tmp_path / "saved" / "tagger" / "model").stat().st_size < (source / "model.safetensors").stat().st_size
    assert [token.tag_ for token in spacy.load(tmp_path / "saved")(TEXT)] == expected
    change(source)
    with pytest.raises(ValueError, match="have changed"):
        spacy.load(tmp_path / "saved")


@pytest.mark.parametrize("content", ["[]", "{}", '{"source": null, "revision": null, "sha256": "", "more": 1}'])
def test_a_damaged_reference_is_named(source, tmp_path, content):
    nlp_of(source).to_disk(tmp_path / "saved")
    (tmp_path / "saved" / "elmo" / "weights.json").write_text(content)
    with pytest.raises(ValueError, match=r"component 'elmo': got a reference to weights with .*expected source"):
        spacy.load(tmp_path / "saved")
