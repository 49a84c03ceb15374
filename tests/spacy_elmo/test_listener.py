import copy
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
import spacy
import srsly
from spacy.training import Example

from hf_elmo import ElmoConfig, ElmoModel
from spacy_elmo.elmo_source import bilm_of
from spacy_elmo.handed_layers import handed_to
from spacy_elmo.listener import ElmoListener, build_elmo_listener
from tests.spacy_elmo.conftest import LAYERS, WIDTH
from tests.spacy_elmo.toy_tasks import (
    add_consumer,
    initialize,
    make_examples,
    mixed_block,
    source_block,
    tok2vec_block,
    train,
)

LISTENER = source_block("listener", "", width=WIDTH, layers=LAYERS)


@pytest.fixture
def tagged_nlp(make_nlp):
    """A trained tagger on the shared biLM."""
    nlp = make_nlp()
    add_consumer(nlp, "tagger", mixed_block(LISTENER))
    examples = make_examples(nlp)
    train(nlp, examples, initialize(nlp, examples), steps=2)
    return nlp


def listener_of(nlp, name="tagger") -> ElmoListener:
    (listener,) = [node for node in nlp.get_pipe(name).model.walk() if isinstance(node, ElmoListener)]
    return listener


def scores(nlp, docs, name="tagger"):
    return nlp.get_pipe(name).model.predict(docs)


def test_it_gives_what_the_component_computed(tagged_nlp):
    listener = listener_of(tagged_nlp)
    docs = [tagged_nlp(text) for text in ["a word", "", "another  one"]]
    for doc, layers in zip(docs, listener.predict(docs), strict=True):
        assert layers.shape == (len(doc), LAYERS, WIDTH)
        np.testing.assert_array_equal(layers, handed_to(doc, "elmo").layers)
    (expected,) = tagged_nlp.get_pipe("elmo").layers_of([docs[0]])
    np.testing.assert_array_equal(listener.predict(docs[:1])[0], expected)


def test_docs_of_the_same_words_are_told_apart(tagged_nlp):
    """spaCy's own listeners compare a sum over the batch's words, which is the same for any order."""
    elmo, listener = tagged_nlp.get_pipe("elmo"), listener_of(tagged_nlp)
    one, other = tagged_nlp.make_doc("dog bites man"), tagged_nlp.make_doc("man bites dog")
    elmo.update([Example(one, one), Example(other, other)])
    swapped, _ = listener([other, one], is_train=True)
    expected = elmo.layers_of([other, one])
    for got, want in zip(swapped, expected, strict=True):
        np.testing.assert_allclose(got, want, atol=2e-6)
    assert np.abs(swapped[0] - swapped[1]).max() > 0.01


def test_a_copied_doc_keeps_its_layers(tagged_nlp):
    doc = tagged_nlp("a word")
    assert handed_to(doc.copy(), "elmo") is handed_to(doc, "elmo")


@pytest.mark.filterwarnings("ignore:.*W109")
def test_layers_are_not_saved_with_the_doc(tagged_nlp):
    doc = tagged_nlp("a word")
    loaded = pickle.loads(pickle.dumps(doc))
    assert handed_to(loaded, "elmo") is None
    assert "elmo_layers" not in str(srsly.msgpack_loads(doc.to_bytes()).keys())
    np.testing.assert_allclose(scores(tagged_nlp, [loaded]), scores(tagged_nlp, [doc]), atol=1e-6)


# Nothing handed out


def test_training_never_runs_on_zeros(make_nlp):
    nlp = make_nlp()
    add_consumer(nlp, "tagger", mixed_block(LISTENER))
    examples = make_examples(nlp)
    optimizer = initialize(nlp, examples)
    with pytest.raises(ValueError, match=r'component \'tagger\'.*annotating_components = \["elmo"\]'):
        train(nlp, examples, optimizer, steps=1, exclude=["elmo"])
    with nlp.select_pipes(disable="elmo"), pytest.raises(ValueError, match="enabled"):
        train(nlp, examples, optimizer, steps=1)
    losses = train(nlp, examples, optimizer, steps=5, exclude=["elmo"], annotates=["elmo"])
    assert losses[-1]["tagger"] < losses[0]["tagger"]
    assert "elmo" not in losses[0]


def test_a_component_before_elmo_is_an_error_in_training(make_nlp):
    nlp = make_nlp()
    add_consumer(nlp, "tagger", mixed_block(LISTENER))
    late = spacy.blank("en")
    add_consumer(late, "tagger", mixed_block(LISTENER))
    late.add_pipe("elmo", config={"model": nlp.get_pipe("elmo").source})
    examples = make_examples(late)
    with pytest.raises(ValueError, match="must be in the pipeline before"):
        train(late, examples, initialize(late, examples), steps=1)


def test_initialising_needs_no_layers(make_nlp):
    nlp = make_nlp()
    add_consumer(nlp, "tagger", mixed_block(LISTENER))
    examples = make_examples(nlp)
    with nlp.select_pipes(disable="elmo"):
        nlp.initialize(lambda: examples)
    assert bilm_of(nlp.get_pipe("elmo").model)._model is None


@pytest.mark.filterwarnings("error")
def test_what_was_not_handed_out_is_asked_for(tagged_nlp):
    """A disabled component, and docs that spaCy makes of spans."""
    doc = tagged_nlp("The dog barks . A tree has bark .")
    expected = scores(tagged_nlp, [doc])[0]
    with tagged_nlp.select_pipes(disable="elmo"):
        np.testing.assert_allclose(scores(tagged_nlp, [tagged_nlp.make_doc(doc.text)])[0], expected, atol=1e-6)
    span = doc[4:].as_doc()
    (alone,) = scores(tagged_nlp, [tagged_nlp(span.text)])
    np.testing.assert_allclose(scores(tagged_nlp, [span])[0], alone, atol=1e-6)


def test_layers_of_other_tokens_are_not_taken(tagged_nlp):
    doc = tagged_nlp("The dog barks .")
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[:2])
    (merged,) = scores(tagged_nlp, [doc])
    assert len(merged) == 3
    (expected,) = tagged_nlp.get_pipe("elmo").layers_of([doc])
    np.testing.assert_allclose(listener_of(tagged_nlp).predict([doc])[0], expected, atol=1e-6)


def test_without_anyone_to_ask_there_is_a_warning():
    listener = build_elmo_listener(width=WIDTH, layers=LAYERS)
    doc = spacy.blank("en")("a word")
    with pytest.warns(UserWarning, match="predictions are made from zeros"):
        (layers,) = listener.predict([doc])
    assert layers.shape == (2, LAYERS, WIDTH)
    assert not layers.any()


# Sizes and names


@pytest.mark.parametrize("wrong", [{"width": WIDTH + 1}, {"layers": 2}])
def test_other_sizes_are_named_before_training(make_nlp, wrong):
    nlp = make_nlp()
    add_consumer(nlp, "tagger", mixed_block({**LISTENER, **wrong}))
    with pytest.raises(ValueError, match=f"got {LAYERS} layers of width {WIDTH}.*Set width = {WIDTH} and layers = "):
        nlp.initialize(lambda: make_examples(nlp))
    with pytest.raises(ValueError, match="got width = 0"):
        build_elmo_listener(width=0, layers=3)


@pytest.fixture
def wider(tiny_folder):
    """As the tiny model, with wider layers."""
    config = ElmoConfig.from_pretrained(tiny_folder)
    config.projection_size = WIDTH
    return ElmoModel(config)


@pytest.mark.parametrize("way", ["disk", "bytes"])
def test_a_saved_pipeline_does_not_mind_what_its_source_has_become(tagged_nlp, tiny_folder, wider, tmp_path, way):
    """Its own weights are read after its components have been linked."""
    source = tmp_path / "source"
    shutil.copytree(tiny_folder, source)
    tagged_nlp.config["components"]["elmo"]["model"] = str(source)
    expected = scores(tagged_nlp, [tagged_nlp("a word")])
    tagged_nlp.to_disk(tmp_path / "saved")
    config, saved = tagged_nlp.config, tagged_nlp.to_bytes()
    shutil.rmtree(source)
    wider.save_pretrained(source)
    if way == "disk":
        loaded = spacy.load(tmp_path / "saved", config={"components.elmo.model": str(source)})
    else:
        config["components"]["elmo"]["model"] = str(source)
        loaded = spacy.util.load_model_from_config(config).from_bytes(saved)
    np.testing.assert_array_equal(scores(loaded, [loaded("a word")])[0], expected[0])


def test_saved_weights_of_other_sizes_are_named(tagged_nlp, wider, tmp_path):
    tagged_nlp.to_disk(tmp_path)
    wider.save_pretrained(tmp_path / "elmo" / "model")
    with pytest.raises(ValueError, match=f"got {LAYERS} layers of width {2 * WIDTH}"):
        spacy.load(tmp_path)


def test_two_bilms_of_different_sizes(make_nlp, wider, tmp_path):
    """With "*" each listener has the nearest one before it, whatever the one before that gives."""
    nlp = make_nlp()
    add_consumer(nlp, "tagger", mixed_block(LISTENER))
    wider.save_pretrained(tmp_path)
    nlp.add_pipe("elmo", name="wider", config={"model": str(tmp_path)})
    add_consumer(nlp, "senter", mixed_block({**LISTENER, "width": 2 * WIDTH}))
    examples = make_examples(nlp)
    losses = train(nlp, examples, initialize(nlp, examples), steps=3)
    assert losses[-1]["senter"] < losses[0]["senter"]
    assert losses[-1]["tagger"] < losses[0]["tagger"]


def test_a_listener_that_nothing_mixes_is_refused(make_nlp):
    nlp = make_nlp()
    with pytest.raises(
        ValueError, match=r"component 'tagger': got spacy_elmo.ElmoListener.v1 as its tok2vec.*`source`"
    ):
        add_consumer(nlp, "tagger", LISTENER)


def test_listeners_hear_the_component_they_name(make_nlp, tiny_folder):
    nlp = make_nlp()
    nlp.add_pipe("elmo", name="other", config={"model": str(tiny_folder)})
    bilm = nlp.get_pipe("other").bilm
    for parameter in bilm.parameters():
        parameter.data *= 0.5
    add_consumer(nlp, "tagger", mixed_block({**LISTENER, "upstream": "elmo"}))
    add_consumer(nlp, "morphologizer", mixed_block({**LISTENER, "upstream": "other"}))
    add_consumer(nlp, "senter", mixed_block(LISTENER))
    examples = make_examples(nlp)
    train(nlp, examples, initialize(nlp, examples), steps=1)
    doc = nlp("a word")
    first, second = (nlp.get_pipe(name).layers_of([doc])[0] for name in ("elmo", "other"))
    assert np.abs(first - second).max() > 1e-3
    for name, expected in [("tagger", first), ("morphologizer", second), ("senter", second)]:
        np.testing.assert_array_equal(listener_of(nlp, name).predict([doc])[0], expected)
    assert nlp.get_pipe("elmo").listening_components == ["tagger", "senter"]


def test_a_renamed_component_is_not_heard_under_its_old_name(make_nlp):
    nlp = make_nlp()
    add_consumer(nlp, "tagger", mixed_block({**LISTENER, "upstream": "elmo"}))
    nlp.rename_pipe("elmo", "context")
    assert nlp.get_pipe("context").listening_components == []


# Copies


def test_a_deep_copy_shares_the_upstream_component(tagged_nlp):
    """spaCy copies models in this way for `nlp.rehearse`."""
    listener = listener_of(tagged_nlp)
    copied = copy.deepcopy(tagged_nlp.get_pipe("tagger").model)
    (other,) = [node for node in copied.walk() if isinstance(node, ElmoListener)]
    assert other is not listener
    assert other.upstream is listener.upstream is tagged_nlp.get_pipe("elmo")


def test_thincs_copy_still_listens(tagged_nlp):
    doc = tagged_nlp("a word")
    model = tagged_nlp.get_pipe("tagger").model
    np.testing.assert_array_equal(model.copy().predict([doc])[0], model.predict([doc])[0])


def test_a_pickled_pipeline_works(tagged_nlp):
    loaded, elmo = pickle.loads(pickle.dumps([tagged_nlp.get_pipe(name) for name in ("tagger", "elmo")]))
    (listener,) = [node for node in loaded.model.walk() if isinstance(node, ElmoListener)]
    doc, plain = tagged_nlp("a word"), tagged_nlp.make_doc("a word")
    np.testing.assert_allclose(loaded.model.predict([plain])[0], scores(tagged_nlp, [doc])[0], atol=1e-6)
    assert listener.upstream is elmo
    assert elmo.known_listeners == [listener]


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_several_processes(tagged_nlp, tmp_path, method):
    tagged_nlp.to_disk(tmp_path)
    (tmp_path / "program.py").write_text(
        "import multiprocessing, spacy\n"
        "if __name__ == '__main__':\n"
        f"    multiprocessing.set_start_method({method!r})\n"
        f"    nlp = spacy.load({str(tmp_path)!r})\n"
        "    texts = ['The dog barks .', 'tree bark', ''] * 4\n"
        "    expected = [[token.tag_ for token in nlp(text)] for text in texts]\n"
        "    docs = nlp.pipe(texts, n_process=2, batch_size=3)\n"
        "    assert [[token.tag_ for token in doc] for doc in docs] == expected\n"
        "    print('done')\n",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "done", done.stderr
    assert "made from zeros" not in done.stderr


# replace_listeners


@pytest.mark.parametrize("form", ["name", "block"])
@pytest.mark.parametrize(
    ("block", "path"),
    [
        (mixed_block, "model.tok2vec.source"),
        (lambda source: tok2vec_block(source, output=True), "model.tok2vec.source"),
    ],
    ids=["mixed", "tok2vec"],
)
def test_replaced_listeners_give_the_same(make_nlp, tiny_folder, tmp_path, form, block, path):
    folder = str(tiny_folder)
    nlp = make_nlp(model=folder if form == "name" else {"@architectures": "spacy_elmo.ElmoModel.v1", "name": folder})
    for label in ("tagger", "ner"):
        add_consumer(nlp, label, block(LISTENER))
    examples = make_examples(nlp)
    train(nlp, examples, initialize(nlp, examples), steps=2)
    expected = scores(nlp, [nlp("a word")])[0]

    nlp.replace_listeners("elmo", "tagger", [path])
    assert nlp.get_pipe("elmo").listening_components == ["ner"]
    replaced = nlp.config["components"]["tagger"]["model"]["tok2vec"]["source"]
    assert replaced["@architectures"] == "spacy_elmo.ElmoModel.v1"
    assert replaced["name"] == folder
    plain = nlp.make_doc("a word")  # not through "elmo": the tagger has its own biLM now
    np.testing.assert_allclose(scores(nlp, [plain])[0], expected, atol=1e-6)
    losses = train(nlp, examples, nlp.resume_training(), steps=2)
    assert set(losses[0]) == {"tagger", "ner"}

    expected = scores(nlp, [plain])[0]
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    np.testing.assert_array_equal(scores(loaded, [loaded.make_doc("a word")])[0], expected)
    assert loaded.get_pipe("elmo").listening_components == ["ner"]


@pytest.mark.parametrize("form", ["name", "block"])
def test_replaced_listeners_keep_the_components_options(make_nlp, tiny_folder, tmp_path, form):
    folder = str(tiny_folder)
    options = {"max_words_per_batch": 77, "precision": "bf16", "store_dtype": "float16", "save_weights": False}
    model = folder if form == "name" else {"@architectures": "spacy_elmo.ElmoModel.v1", "name": folder}
    nlp = make_nlp(model=model, **options)
    add_consumer(nlp, "tagger", mixed_block(LISTENER))
    initialize(nlp, make_examples(nlp))
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec.source"])
    nlp.to_disk(tmp_path)
    for pipeline in (nlp, spacy.load(tmp_path)):
        (source,) = [node for node in pipeline.get_pipe("tagger").model.walk() if node.name == "elmo_model"]
        assert options.items() <= bilm_of(source).options().items()


def test_listeners_are_replaced_when_a_component_is_sourced(make_nlp, tmp_path):
    nlp = make_nlp()
    add_consumer(nlp, "tagger", mixed_block(LISTENER))
    examples = make_examples(nlp)
    train(nlp, examples, initialize(nlp, examples), steps=2)
    expected = scores(nlp, [nlp("a word")])[0]
    nlp.to_disk(tmp_path)
    config = {
        "nlp": {"lang": "en", "pipeline": ["tagger"]},
        "components": {"tagger": {"source": str(tmp_path), "replace_listeners": ["model.tok2vec.source"]}},
    }
    loaded = spacy.util.load_model_from_config(config, auto_fill=True)
    np.testing.assert_allclose(scores(loaded, [loaded.make_doc("a word")])[0], expected, atol=1e-6)


def test_a_sourced_pipeline_shares_as_before(tagged_nlp):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", source=tagged_nlp)
    nlp.add_pipe("tagger", source=tagged_nlp)
    np.testing.assert_allclose(scores(nlp, [nlp("a word")])[0], scores(tagged_nlp, [tagged_nlp("a word")])[0])
    examples = make_examples(nlp)
    losses = train(nlp, examples, nlp.resume_training(), steps=3)
    assert losses[-1]["tagger"] < losses[0]["tagger"]
