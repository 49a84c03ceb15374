"""Programs that never import hf_elmo by name: the file beside the weights, and what `auto_map` says of it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForPreTraining,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    PreTrainedModel,
)

from hf_elmo import (
    ElmoConfig,
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoTokenizer,
)
from hf_elmo.auto_map import SHIM, model_auto_map
from hf_elmo.model_source import default_model_path
from tests.hf_elmo.models import random_head, random_lm, random_model

REPOSITORY = Path(__file__).resolve().parents[2]
AUTO = {
    ElmoModel: AutoModel,
    ElmoForPreTraining: AutoModelForPreTraining,
    ElmoForTokenClassification: AutoModelForTokenClassification,
    ElmoForSequenceClassification: AutoModelForSequenceClassification,
    ElmoForQuestionAnswering: AutoModelForQuestionAnswering,
}
TEXT = "Who let it out ?"


def new_model(kind: type[PreTrainedModel]) -> PreTrainedModel:
    if kind is ElmoModel:
        return random_model()
    return random_lm() if kind is ElmoForPreTraining else random_head(kind)  # type: ignore[type-var]


def saved(folder: Path, kind: type[PreTrainedModel] = ElmoModel) -> Path:
    new_model(kind).save_pretrained(folder)
    ElmoTokenizer().save_pretrained(folder)
    return folder


def auto_map(folder: Path, file: str = "config.json") -> dict[str, Any]:
    return json.loads((folder / file).read_text())["auto_map"]


def run(program: str, *arguments: str | Path, cache: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, with a cache of its own and nobody to answer questions."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env={**kept, "PYTHONPATH": str(REPOSITORY), "HF_HOME": str(cache), "HF_HUB_OFFLINE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not check or done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("kind", AUTO, ids=lambda kind: kind.__name__)
def test_saving_writes_the_file_and_every_class(kind: type[PreTrainedModel], tmp_path: Path) -> None:
    new_model(kind).save_pretrained(tmp_path)
    assert auto_map(tmp_path) == {
        **{auto.__name__: f"hf_elmo_classes.{own.__name__}" for own, auto in AUTO.items()},
        "AutoConfig": "hf_elmo_classes.ElmoConfig",
        "AutoTokenizer": [None, "hf_elmo_classes.ElmoTokenizer"],
    }
    assert (tmp_path / SHIM).read_text() == (REPOSITORY / "hf_elmo" / SHIM).read_text()


def test_the_tokenizer_and_the_configuration_write_it_too(tmp_path: Path) -> None:
    ElmoTokenizer().save_pretrained(tmp_path / "tokenizer")
    assert auto_map(tmp_path / "tokenizer", "tokenizer_config.json") == {
        "AutoTokenizer": [None, "hf_elmo_classes.ElmoTokenizer"]
    }
    ElmoConfig().save_pretrained(tmp_path / "config")
    assert auto_map(tmp_path / "config") == model_auto_map()
    for folder in ("tokenizer", "config"):
        assert (tmp_path / folder / SHIM).is_file()


def test_the_shipped_model_has_them() -> None:
    folder = default_model_path()
    assert auto_map(folder) == model_auto_map()
    assert auto_map(folder, "tokenizer_config.json").keys() == {"AutoTokenizer"}
    assert (folder / SHIM).read_text() == (REPOSITORY / "hf_elmo" / SHIM).read_text()


def test_every_named_class_is_in_the_file() -> None:
    names: dict[str, Any] = {}
    exec(compile((REPOSITORY / "hf_elmo" / SHIM).read_text(), SHIM, "exec"), names)
    for auto, reference in model_auto_map().items():
        name = (reference if isinstance(reference, str) else reference[1]).removeprefix("hf_elmo_classes.")
        assert hasattr(transformers, auto)
        assert names[name].__name__ == name
        assert names[name].__module__.startswith("hf_elmo.")


@pytest.mark.parametrize("kind", AUTO, ids=lambda kind: kind.__name__)
def test_after_the_import_nothing_is_asked_or_warned(
    kind: type[PreTrainedModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither does transformers run the file: it would fail here."""
    saved(tmp_path, kind)
    (tmp_path / SHIM).write_text("raise RuntimeError('this file was run')")
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked"))
    monkeypatch.setattr(transformers.utils.logging.get_logger("transformers"), "propagate", True)
    assert type(AUTO[kind].from_pretrained(tmp_path)) is kind
    assert type(AutoTokenizer.from_pretrained(tmp_path)) is ElmoTokenizer
    assert type(AutoConfig.from_pretrained(tmp_path)) is ElmoConfig
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []


WITHOUT_IMPORT = """
import sys, json, torch, transformers
folder, again, kinds = sys.argv[1], sys.argv[2], sys.argv[3:]
assert "hf_elmo" not in sys.modules
results = {}
for auto in kinds:
    tokenizer = transformers.AutoTokenizer.from_pretrained(f"{folder}/{auto}", trust_remote_code=True)
    model = getattr(transformers, auto).from_pretrained(f"{folder}/{auto}", trust_remote_code=True)
    output = model(**tokenizer("Who let it out ?", "it", return_tensors="pt"), output_hidden_states=True)
    results[auto] = [type(model).__name__, output.hidden_states[1].double().sum().item()]
    model.save_pretrained(f"{again}/{auto}")
    tokenizer.save_pretrained(f"{again}/{auto}")
print("RESULT", json.dumps(results))
"""


@pytest.mark.slow
def test_without_the_import_every_class_loads_computes_and_is_saved_alike(tmp_path: Path) -> None:
    """By trust_remote_code, in processes that never name hf_elmo; the second loads what the first saved again."""
    expected = {}
    for kind, auto in AUTO.items():
        model = auto.from_pretrained(saved(tmp_path / "first" / auto.__name__, kind))
        output = model(**ElmoTokenizer()(TEXT, "it", return_tensors="pt"), output_hidden_states=True)
        expected[auto.__name__] = [kind.__name__, pytest.approx(output.hidden_states[1].double().sum().item())]
    for source, again in (("first", "second"), ("second", "third")):
        done = run(WITHOUT_IMPORT, tmp_path / source, tmp_path / again, *expected, cache=tmp_path / "cache")
        assert json.loads(done.stdout.split("RESULT", 1)[1]) == expected
        for auto in expected:
            before, after = tmp_path / source / auto, tmp_path / again / auto
            files = {path.name for path in after.iterdir()}
            assert files == {path.name for path in before.iterdir()}
            assert auto_map(after) == auto_map(before) == model_auto_map()
            assert auto_map(after, "tokenizer_config.json") == auto_map(before, "tokenizer_config.json")
            assert (after / SHIM).read_text() == (before / SHIM).read_text()


@pytest.mark.slow
def test_a_pipeline_and_the_configuration_without_the_import(tmp_path: Path) -> None:
    model = ElmoForTokenClassification.from_pretrained(saved(tmp_path / "ner", ElmoForTokenClassification))
    program = (
        "import sys\nfrom transformers import AutoConfig, pipeline\n"
        "print('RESULT', AutoConfig.from_pretrained(sys.argv[1], trust_remote_code=True).model_type)\n"
        "ner = pipeline('token-classification', model=sys.argv[1], trust_remote_code=True, ignore_labels=[])\n"
        "print('RESULT', [r['entity'] for r in ner('Who let it out ?')])\n"
    )
    done = run(program, tmp_path / "ner", cache=tmp_path / "cache")
    tags = model(**ElmoTokenizer()(TEXT, return_tensors="pt")).predictions[0, 1:-1].tolist()
    assert [line for line in done.stdout.splitlines() if line.startswith("RESULT")] == [
        "RESULT elmo",
        f"RESULT {[f'LABEL_{tag}' for tag in tags]}",
    ]


@pytest.mark.slow
def test_without_the_package_the_error_names_it(tmp_path: Path) -> None:
    """Also where an older package lacks a class; any other missing library keeps its own message."""
    program = (
        "import sys, types\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'hf_elmo':\n"
        "            raise ModuleNotFoundError('No module named ' + repr(sys.argv[2]), name=sys.argv[2])\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "if sys.argv[3:]: sys.modules['hf_elmo'] = types.ModuleType('hf_elmo')\n"
        "from transformers import AutoModel\n"
        "AutoModel.from_pretrained(sys.argv[1], trust_remote_code=True)\n"
    )
    saved(tmp_path / "model")
    for arguments, part in ((["hf_elmo"], "No module named 'hf_elmo'"), (["hf_elmo", "old"], "cannot import name")):
        done = run(program, tmp_path / "model", *arguments, cache=tmp_path / "cache", check=False)
        assert done.returncode != 0
        (message,) = [
            line for line in done.stderr.splitlines() if line.startswith("ImportError: This model is an ELMo")
        ]
        assert part in message
        assert done.stderr.rstrip().endswith("pip install --upgrade spacy-elmo")
    done = run(program, tmp_path / "model", "spam", cache=tmp_path / "cache", check=False)
    assert done.stderr.rstrip().endswith("No module named 'spam'")
    assert "pip install" not in done.stderr


@pytest.mark.slow
def test_without_trust_transformers_says_how_to_give_it(tmp_path: Path) -> None:
    program = "import sys, transformers; transformers.AutoModel.from_pretrained(sys.argv[1])"
    done = run(program, saved(tmp_path / "model"), cache=tmp_path / "cache", check=False)
    assert "trust_remote_code=True" in done.stderr.splitlines()[-1]


def test_a_subclass_of_a_user_goes_with_its_own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_tagger.py").write_text(
        "from hf_elmo import ElmoForTokenClassification\nclass MyTagger(ElmoForTokenClassification):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import my_tagger  # type: ignore[import-not-found]

    my_tagger.MyTagger.register_for_auto_class("AutoModelForTokenClassification")
    random_head(my_tagger.MyTagger).save_pretrained(tmp_path / "out")
    assert auto_map(tmp_path / "out") == model_auto_map() | {"AutoModelForTokenClassification": "my_tagger.MyTagger"}
    assert (tmp_path / "out" / "my_tagger.py").is_file()
    assert not (tmp_path / "out" / "token_classification.py").exists()
    again = ElmoConfig.from_pretrained(tmp_path / "out")
    again.save_pretrained(tmp_path / "again")
    assert auto_map(tmp_path / "again") == auto_map(tmp_path / "out")


def test_registering_a_class_of_the_package_copies_no_code(tmp_path: Path) -> None:
    """What transformers does by itself to every class that it loaded by trust_remote_code."""
    for kind in (ElmoConfig, ElmoModel, ElmoTokenizer):
        kind.register_for_auto_class()
    saved(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors", ".py"}
    assert [path.name for path in tmp_path.glob("*.py")] == [SHIM]
    assert auto_map(tmp_path) == model_auto_map()


def test_classes_of_another_repository_become_those_of_this_folder() -> None:
    present = {"AutoModel": "user/name--hf_elmo_classes.ElmoModel", "AutoModelForX": "user/name--other.X"}
    assert model_auto_map(present) == model_auto_map() | {"AutoModelForX": "user/name--other.X"}


def test_the_vectors_do_not_depend_on_it(tmp_path: Path) -> None:
    """A folder of before, without the file and the map."""
    model = AutoModel.from_pretrained(saved(tmp_path))
    (tmp_path / SHIM).unlink()
    content = json.loads((tmp_path / "config.json").read_text())
    del content["auto_map"]
    (tmp_path / "config.json").write_text(json.dumps(content))
    batch = ElmoTokenizer()(TEXT, return_tensors="pt")
    old = AutoModel.from_pretrained(tmp_path)
    assert torch.equal(old(**batch).last_hidden_state, model(**batch).last_hidden_state)
