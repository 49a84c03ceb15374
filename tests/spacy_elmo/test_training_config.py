"""What people do with configuration files: `spacy init fill-config`, `spacy train`, `spacy.load`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import spacy
from spacy.cli.init_config import fill_config
from spacy.tokens import DocBin
from thinc.api import Config

from hf_elmo import ElmoModel
from spacy_elmo.scalar_mix import mix_weights, scalar_mixes
from tests.spacy_elmo.conftest import LAYERS, WIDTH
from tests.spacy_elmo.toy_tasks import make_examples

CONFIG = f"""
[paths]
train = null
dev = null
weights = null

[nlp]
lang = "en"
pipeline = ["sentencizer", "elmo", "tagger", "ner"]

[components]

[components.sentencizer]
factory = "sentencizer"

[components.elmo]
factory = "elmo"

[components.elmo.model]
@architectures = "spacy_elmo.ElmoModel.v1"
name = ${{paths.weights}}

[components.tagger]
factory = "tagger"

[components.tagger.model]
@architectures = "spacy.Tagger.v2"

[components.tagger.model.tok2vec]
@architectures = "spacy_elmo.MixedElmo.v1"

[components.tagger.model.tok2vec.source]
@architectures = "spacy_elmo.ElmoListener.v1"
width = {WIDTH}
layers = {LAYERS}

[components.tagger.model.tok2vec.mix]
@architectures = "spacy_elmo.ScalarMix.v1"
layers = [1,2]

[components.ner]
factory = "ner"

[components.ner.model]
@architectures = "spacy.TransitionBasedParser.v2"
state_type = "ner"
extra_state_tokens = false
hidden_width = 16
maxout_pieces = 2
use_upper = true

[components.ner.model.tok2vec]
@architectures = "spacy_elmo.ElmoTok2Vec.v1"

[components.ner.model.tok2vec.source]
@architectures = "spacy_elmo.ElmoListener.v1"
width = ${{components.tagger.model.tok2vec.source.width}}
layers = {LAYERS}
upstream = "elmo"

[components.ner.model.tok2vec.embed]
@architectures = "spacy.MultiHashEmbed.v2"
width = 8
attrs = ["NORM","SHAPE"]
rows = [50,50]
include_static_vectors = false

[components.ner.model.tok2vec.input_mix]
@layers = "spacy_elmo.ScalarMix.v1"
l2 = 0.001

[components.ner.model.tok2vec.encode]
@architectures = "spacy.MaxoutWindowEncoder.v2"
width = 8
depth = 1
window_size = 1
maxout_pieces = 2

[corpora]

[corpora.train]
@readers = "spacy.Corpus.v1"
path = ${{paths.train}}

[corpora.dev]
@readers = "spacy.Corpus.v1"
path = ${{paths.dev}}

[training]
max_steps = 4
eval_frequency = 2
annotating_components = ["sentencizer"]

[training.optimizer]
@optimizers = "Adam.v1"
use_averages = true
"""


@pytest.fixture
def files(tmp_path: Path, tiny_folder: Path) -> Path:
    """A folder with base.cfg, config.cfg (the same, filled in), train.spacy and dev.spacy."""
    base = CONFIG.replace("weights = null", f'weights = "{tiny_folder}"')
    (tmp_path / "base.cfg").write_text(base, encoding="utf-8")
    fill_config(tmp_path / "config.cfg", tmp_path / "base.cfg", silent=True)
    nlp = spacy.blank("en")
    for seed, name in enumerate(["train", "dev"]):
        examples = make_examples(nlp, seed=seed)
        DocBin(docs=[example.reference for example in examples]).to_disk(tmp_path / f"{name}.spacy")
    return tmp_path


def run_spacy(folder: Path, *arguments: str, fails: bool = False) -> str:
    finished = subprocess.run(
        [sys.executable, "-m", "spacy", *arguments],
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (finished.returncode != 0) is fails, finished.stdout + finished.stderr
    return finished.stdout + finished.stderr


def train_command(*overrides: str, config: str = "config.cfg", output: str = "out") -> list[str]:
    paths = ["--paths.train", "train.spacy", "--paths.dev", "dev.spacy"]
    return ["train", config, "--output", output, *paths, *overrides]


def test_a_pipeline_from_a_configuration_file(files):
    config = spacy.util.load_config(files / "base.cfg")
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    examples = make_examples(nlp)
    optimizer = nlp.initialize(lambda: examples)
    nlp.update(examples, sgd=optimizer)
    assert nlp.get_pipe("elmo").listening_components == ["tagger", "ner"]
    (mix,) = scalar_mixes(nlp.get_pipe("tagger").model)
    assert len(mix_weights(mix)) == 2
    assert nlp.get_pipe("ner").model.get_ref("tok2vec").layers[0].get_dim("nO") == 8
    # What is filled in is what the file means: building from it again gives the same.
    again = spacy.util.load_model_from_config(Config().from_str(nlp.config.to_str()))
    assert again.config["components"] == nlp.config.interpolate()["components"]


def test_a_misspelt_option_of_a_block_is_refused(files):
    config = spacy.util.load_config(files / "base.cfg")
    config["components"]["tagger"]["model"]["tok2vec"]["mix"]["layer_nrom"] = True
    with pytest.raises(ValueError, match="layer_nrom"):
        spacy.util.load_model_from_config(config, auto_fill=True)


def test_defaults_are_filled_in():
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    filled = nlp.config["components"]["elmo"]
    assert filled["frozen"] is True
    assert filled["model"] == {
        "@architectures": "spacy_elmo.ElmoModel.v1",
        "name": None,
        "revision": None,
        "max_words_per_batch": 4096,
    }


@pytest.mark.slow
def test_fill_config_and_train(files, tiny_folder):
    run_spacy(files, "init", "fill-config", "base.cfg", "config.cfg")
    filled = Config().from_disk(files / "config.cfg", interpolate=False)
    assert filled["components"]["elmo"]["frozen"] is True
    assert filled["components"]["ner"]["model"]["tok2vec"]["input_mix"]["dropout"] == 0.2
    printed = run_spacy(files, *train_command())
    assert "LOSS NER" in printed.upper()
    assert "LOSS ELMO" not in printed.upper()
    nlp = spacy.load(files / "out" / "model-last")
    assert nlp("Abcder bark in Abcdville .")[0].tag_
    trained = nlp.get_pipe("elmo").bilm.state_dict()
    for name, value in ElmoModel.from_pretrained(tiny_folder).state_dict().items():
        assert value.equal(trained[name]), name


@pytest.mark.slow
def test_train_fine_tunes(files, tiny_folder):
    options = ["--components.elmo.frozen", "false", "--components.elmo.learning_rate_factor", "0.5"]
    printed = run_spacy(files, *train_command(*options))
    assert "LOSS ELMO" in printed.upper()
    trained = spacy.load(files / "out" / "model-last").get_pipe("elmo").bilm
    name = "layers.0.forward_lstm.gates.weight"
    assert not trained.state_dict()[name].equal(ElmoModel.from_pretrained(tiny_folder).state_dict()[name])


@pytest.mark.slow
def test_train_with_frozen_components_says_what_is_missing(files):
    frozen = ["--training.frozen_components", '["elmo"]']
    printed = run_spacy(files, *train_command(*frozen), fails=True)
    assert 'annotating_components = ["elmo"]' in " ".join(printed.split())
    annotating = ["--training.annotating_components", '["sentencizer","elmo"]']
    run_spacy(files, *train_command(*frozen, *annotating))


@pytest.mark.slow
def test_a_trained_component_is_resumed(files):
    """A sourced tagger, still listening, next to a new component: spaCy does not initialise it."""
    run_spacy(files, *train_command())
    config = Config().from_disk(files / "config.cfg", interpolate=False)
    config["components"]["elmo"] = {"source": "out/model-last"}
    config["components"]["tagger"] = {"source": "out/model-last"}
    config["components"]["ner"]["model"]["tok2vec"]["source"]["width"] = WIDTH
    config.to_disk(files / "resumed.cfg")
    run_spacy(files, *train_command(config="resumed.cfg", output="resumed"))
    nlp = spacy.load(files / "resumed" / "model-last")
    assert nlp.get_pipe("elmo").listening_components == ["tagger", "ner"]
