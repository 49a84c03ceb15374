import json
import os
import subprocess
import sys

import pytest
import spacy

HEAVY = ("transformers", "h5py", "hf_elmo", "tokenizers", "safetensors", "rich")


def run_python(code: str, **environment: str) -> str:
    """Run code in a fresh process without a network and return what it printed."""
    finished = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_a_blank_pipeline_imports_nothing_heavy():
    added = json.loads(
        run_python(
            "import json, sys, spacy\n"
            "before = set(sys.modules)\n"
            "nlp = spacy.blank('en')\n"
            "assert nlp.has_factory('elmo')\n"
            "print(json.dumps(sorted(set(sys.modules) - before)))"
        )
    )
    ours = [name for name in added if name.split(".")[0] == "spacy_elmo"]
    assert ours == ["spacy_elmo", "spacy_elmo.entry_points"]
    assert [name for name in added if name.split(".")[0] in HEAVY] == []


def test_importing_the_package_imports_nothing_else():
    added = json.loads(
        run_python(
            "import json, sys\n"
            "before = set(sys.modules)\n"
            "import spacy_elmo\n"
            "print(json.dumps(sorted(set(sys.modules) - before)))"
        )
    )
    assert "spacy_elmo" in added
    assert {name.split(".")[0] for name in added} <= {"spacy_elmo", *sys.stdlib_module_names}


def test_the_package_names_what_it_has():
    import spacy_elmo
    from hf_elmo.version import __version__
    from spacy_elmo.vectors import restore_hooks

    assert spacy_elmo.restore_hooks is restore_hooks
    assert spacy_elmo.__version__ == __version__
    with pytest.raises(AttributeError, match="restore_hoks"):
        spacy_elmo.restore_hoks  # noqa: B018


def test_a_fresh_machine_without_a_network_gives_vectors():
    printed = run_python(
        "import spacy\n"
        "nlp = spacy.blank('en')\n"
        "nlp.add_pipe('elmo')\n"
        "doc = nlp('The dog let out a sharp bark .')\n"
        "width = doc._.elmo.shape[1]\n"
        "assert doc._.elmo.shape == (8, width) and doc._.elmo.dtype == 'float32'\n"
        "assert all(token.has_vector and token.vector.shape == (width,) for token in doc)\n"
        "assert doc[6].vector.any() and (doc[6].vector == doc._.elmo[6]).all()\n"
        "print(width)"
    )
    assert int(printed) > 0


def test_options_reach_the_component_and_the_saved_config(tiny_folder):
    nlp = spacy.blank("en")
    options = {"model": str(tiny_folder), "all_layers": True, "max_words_per_batch": 7, "set_vectors": False}
    options["precision"] = "int8"
    component = nlp.add_pipe("elmo", name="context", config=options)
    assert component.name == "context"
    assert (component.source, component.all_layers, component.max_words_per_batch) == (
        str(tiny_folder),
        True,
        7,
    )
    assert component.set_vectors is False
    assert component.precision == "int8"
    training = {"frozen": True, "learning_rate_factor": 1.0, "unfreeze_after": None}
    saved = nlp.config["components"]["context"]
    assert {"factory": "elmo", "revision": None, **training, **options}.items() <= saved.items()


def test_the_model_is_a_name_or_a_block(tiny_folder):
    folder = str(tiny_folder)
    block = {"@architectures": "spacy_elmo.ElmoModel.v1", "name": folder, "max_words_per_batch": 7}
    part = {"name": folder, "max_words_per_batch": 7}
    for model in (folder, block, part):
        nlp = spacy.blank("en")
        component = nlp.add_pipe("elmo", config={"model": model})
        assert component.source == folder
        assert component.max_words_per_batch == (4096 if model is folder else 7)
        if model is not folder:
            assert block.items() <= nlp.config["components"]["elmo"]["model"].items()
    with pytest.raises(ValueError, match="revision: got 'v1' beside a block"):
        spacy.blank("en").add_pipe("elmo", config={"model": block, "revision": "v1"})


@pytest.mark.parametrize(
    "name", ["ElmoModel", "ElmoListener", "ScalarMix", "MixedElmo", "ElmoTok2Vec", "BiLSTMEncoder"]
)
def test_architectures_are_registered_with_versions(name):
    assert spacy.registry.architectures.get(f"spacy_elmo.{name}.v1").__module__.startswith("spacy_elmo.")


def test_a_misspelt_option_is_refused():
    with pytest.raises(ValueError, match="all_layer"):
        spacy.blank("en").add_pipe("elmo", config={"all_layer": True})


def test_pipe_analysis_knows_what_is_assigned(nlp):
    assert "doc._.elmo" in nlp.analyze_pipes()["summary"]["elmo"]["assigns"]
