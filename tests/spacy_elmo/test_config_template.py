import itertools
import re

import pytest
import spacy
from spacy.cli.init_config import fill_config
from spacy.util import load_config, load_model_from_config
from thinc.api import Config

from spacy_elmo.config_template import TASKS, build_config, commented
from spacy_elmo.listener import ElmoListener
from tests.spacy_elmo.conftest import LAYERS, WIDTH
from tests.spacy_elmo.toy_tasks import make_examples, train

OPTIONS = [
    dict(zip(("output_mix", "fine_tune", "gpu"), chosen, strict=True))
    for chosen in itertools.product([False, True], repeat=3)
]


def without_comments(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))


@pytest.mark.parametrize("options", OPTIONS, ids=lambda chosen: "-".join(k for k, v in chosen.items() if v) or "plain")
def test_nothing_is_left_to_be_filled_in(tmp_path, tiny_folder, options):
    """`spacy init fill-config` gives the same, apart from comments."""
    text = commented(build_config(pipeline=["ner", "tagger"], model=str(tiny_folder), **options))
    (tmp_path / "config.cfg").write_text(text, encoding="utf-8")
    fill_config(tmp_path / "filled.cfg", tmp_path / "config.cfg", silent=True)
    assert (tmp_path / "filled.cfg").read_text(encoding="utf-8").strip() == without_comments(text).strip()


@pytest.mark.parametrize("task", TASKS)
def test_every_task_learns(tiny_folder, task):
    config = Config().from_str(commented(build_config(pipeline=[task], model=str(tiny_folder))))
    if task == "parser":
        config["components"]["parser"]["min_action_freq"] = 1  # the corpus is small
    nlp = load_model_from_config(config, auto_fill=False, validate=True)
    listeners = [node for node in nlp.get_pipe(task).model.walk() if isinstance(node, ElmoListener)]
    assert listeners
    assert {listener.sizes for listener in listeners} == {(WIDTH, LAYERS)}
    examples = make_examples(nlp, count=24)
    optimizer = nlp.initialize(lambda: examples)
    annotating = nlp.config["training"]["annotating_components"]
    losses = [one[task] for one in train(nlp, examples, optimizer, steps=12, annotates=annotating)]
    assert min(losses[6:]) < losses[0]
    assert list(nlp.pipe(["a word", ""]))


def test_the_boundaries_are_a_rules_unless_the_pipeline_finds_them(tiny_folder):
    for task, before in [("ner", ["sentencizer"]), ("parser", []), ("senter", [])]:
        config = build_config(pipeline=["tagger", task], model=str(tiny_folder))
        assert config["nlp"]["pipeline"] == [*before, "elmo", "tagger", task]
        assert config["training"]["annotating_components"] == before
        assert bool(config["training"]["score_weights"].get("sents_f")) is (task == "senter")


def test_options_are_where_they_belong(tiny_folder):
    def build(**options):
        return build_config(pipeline=["ner"], model=str(tiny_folder), **options)

    plain = build()
    assert plain["components"]["elmo"]["frozen"] is True
    assert plain["components"]["elmo"]["model"]["name"] == str(tiny_folder)
    assert plain["components"]["ner"]["model"]["tok2vec"]["output_mix"] is None
    assert plain["initialize"]["before_init"]["cache_size"] == 10**9
    assert build(output_mix=True)["components"]["ner"]["model"]["tok2vec"]["output_mix"]["@layers"]
    tuned = build(fine_tune=True)
    assert tuned["components"]["elmo"]["frozen"] is False
    assert tuned["initialize"]["before_init"] is None
    assert "elmo_cache" not in tuned["paths"]
    assert build(gpu=True)["components"]["elmo"]["model"]["device"] == "cuda"
    assert build_config(pipeline=["ner"], lang="de")["nlp"]["lang"] == "de"


def test_the_cache_is_for_training_only(tiny_folder, tmp_path):
    config = build_config(pipeline=["tagger"], model=str(tiny_folder))
    config["paths"]["elmo_cache"] = str(tmp_path / "cache")
    nlp = load_model_from_config(config)
    assert nlp.get_pipe("elmo").shim.cache is None
    examples = make_examples(nlp)
    nlp.initialize(lambda: examples)
    cache = nlp.get_pipe("elmo").shim.cache
    assert (cache.max_bytes, cache.folder, cache.store_dtype) == (10**9, tmp_path / "cache", "float32")
    nlp.to_disk(tmp_path / "saved")
    assert spacy.load(tmp_path / "saved").get_pipe("elmo").shim.cache is None


def test_comments_stand_before_what_they_speak_of(tiny_folder):
    text = commented(build_config(pipeline=["ner", "textcat"], model=str(tiny_folder), output_mix=True))
    for expected in (
        r"# A pipeline on ELMo.*\n(#.*\n)*\[paths\]",
        r"# One biLM for all tasks\. It is frozen.*\n(#.*\n)*\[components\.elmo\]",
        r"# \[x; ELMo\] into the encoder.*\n\[components\.ner\.model\.tok2vec\]",
        r"# \[x; ELMo\] into the encoder.*\n\[components\.textcat\.model\.tok2vec\]",
        r"# .*own mix of the layers.*\n\[components\.ner\.model\.tok2vec\.input_mix\]",
        r"# Another mix.*\n\[components\.ner\.model\.tok2vec\.output_mix\]",
        r"# The sentencizer annotates in training too.*\n\[training\]",
        r"# .*every sentence once.*\n#.*\n\[initialize\.before_init\]",
        r"# Less saves memory\nmax_words_per_batch = 4096",
    ):
        assert re.search(expected, text), expected
    assert "trained by their gradients" in commented(build_config(pipeline=["ner"], fine_tune=True))
    assert "each doc as a whole" in commented(build_config(pipeline=["parser"]))
    assert all(len(line) <= 120 for line in text.splitlines())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"pipeline": []}, ValueError, "pipeline: got ''; expected one or more of tagger"),
        ({"pipeline": ["ner", "nre"]}, ValueError, "pipeline: got 'ner,nre'"),
        ({"pipeline": ["ner", "ner"]}, ValueError, "each once"),
        ({"pipeline": ["entity_linker"]}, ValueError, "by hand"),
        ({"pipeline": ["ner"], "lang": "xx-none"}, ImportError, "lang: got 'xx-none'; expected the code of a language"),
        ({"pipeline": ["ner"], "model": "nowhere/at-all"}, OSError, "nowhere/at-all"),
    ],
)
def test_what_is_not_there_is_named(monkeypatch, options, error, message):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(error, match=message):
        build_config(**options)


def test_spacy_reads_it_from_a_file(tmp_path, tiny_folder):
    (tmp_path / "c.cfg").write_text(commented(build_config(pipeline=["ner"], model=str(tiny_folder))), encoding="utf-8")
    assert load_config(tmp_path / "c.cfg")["nlp"]["pipeline"] == ["sentencizer", "elmo", "ner"]
