import pytest
import spacy
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as train_by_config

from spacy_elmo.config_template import build_config
from spacy_elmo.training_cache import set_cache
from tests.spacy_elmo.test_known_complaints import corpus_config

_LISTS = {"frozen_components": ["elmo"], "annotating_components": ["sentencizer", "elmo"]}


@pytest.mark.parametrize("how", ["usual", "frozen", "sourced and frozen", "sourced"])
def test_training_fills_the_folder(tmp_path, tiny_folder, how):
    """Also where spaCy does not initialise the component."""
    config = corpus_config(tmp_path, tiny_folder, **(_LISTS if "frozen" in how else {}))
    config["paths"]["elmo_cache"] = str(tmp_path / "cache")
    if "sourced" in how:
        init_nlp(corpus_config(tmp_path, tiny_folder)).to_disk(tmp_path / "trained")
        config["components"]["elmo"] = {"source": str(tmp_path / "trained")}
    nlp = init_nlp(config)
    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        train_by_config(nlp, stdout=log, stderr=log)
    assert any((tmp_path / "cache").rglob("*"))
    assert nlp.get_pipe("elmo").shim.cache.statistics.hits > 0
    nlp.to_disk(tmp_path / "saved")
    assert spacy.load(tmp_path / "saved").get_pipe("elmo").shim.cache is None


def test_options_that_are_not_given_stay(make_nlp, tmp_path):
    nlp = make_nlp(cache_size=1000, store_dtype="float16")
    with nlp.select_pipes(disable="elmo"):
        set_cache(cache_dir=str(tmp_path))(nlp)
    options = nlp.get_pipe("elmo").shim.cache_options
    assert (options.cache_size, options.cache_dir, options.store_dtype) == (1000, str(tmp_path), "float16")


def test_a_bilm_that_is_trained_has_none(make_nlp):
    nlp = make_nlp(frozen=False)
    with pytest.raises(ValueError, match=r"got a pipeline of elmo; expected .* frozen"):
        set_cache(cache_size=1000)(nlp)
    nlp = make_nlp(frozen=False)
    nlp.add_pipe("elmo", name="other", config={"model": nlp.get_pipe("elmo").source})
    set_cache(cache_size=1000)(nlp)
    assert [nlp.get_pipe(name).shim.cache_options.cache_size for name in ("elmo", "other")] == [0, 1000]


def test_it_is_registered(tiny_folder):
    config = build_config(pipeline=["ner"], model=str(tiny_folder))["initialize"]["before_init"]
    assert spacy.registry.resolve({"it": {**config, "cache_dir": None}})["it"]
    assert spacy.registry.callbacks.get("spacy_elmo.set_cache.v1") is set_cache
