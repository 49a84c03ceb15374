"""Every trainable component of spaCy on top of ELMo: it learns, is saved, and predicts the same when loaded."""

import numpy as np
import pytest
import spacy
import torch
from spacy.tokens import Doc

from spacy_elmo.elmo_source import bilm_of
from tests.spacy_elmo.conftest import LAYERS, WIDTH
from tests.spacy_elmo.toy_tasks import (
    CONSUMERS,
    add_consumer,
    initialize,
    make_examples,
    mixed_block,
    source_block,
    tok2vec_block,
    train,
)

SETTINGS = {
    "shared": ("listener", tok2vec_block, {}),
    "fine-tuned": ("listener", mixed_block, {"frozen": False, "learning_rate_factor": 0.1}),
    "standalone": ("standalone", mixed_block, {}),
}


def make_pipeline(label, setting, folder):
    kind, block, options = SETTINGS[setting]
    nlp = spacy.blank("en")
    if label != "parser":  # which would be held to the boundaries
        nlp.add_pipe("sentencizer")
    if kind == "listener":
        nlp.add_pipe("elmo", config={"model": folder, **options})
    if label == "entity_linker":  # it links what others have found
        nlp.add_pipe("entity_ruler")
    add_consumer(nlp, label, block(source_block(kind, folder, width=WIDTH, layers=LAYERS)))
    return nlp


def bilm_state(nlp, label):
    if nlp.has_pipe("elmo"):
        model = nlp.get_pipe("elmo").model
    else:
        (model,) = [node for node in nlp.get_pipe(label).model.walk() if node.name == "elmo_model"]
    return {name: value.clone() for name, value in bilm_of(model).model.state_dict().items()}


def annotations(doc: Doc):
    return (
        [(t.tag_, t.pos_, str(t.morph), t.lemma_, t.dep_, t.head.i, t.is_sent_start, t.ent_kb_id_) for t in doc],
        [(ent.start, ent.end, ent.label_) for ent in doc.ents],
        [(span.start, span.end, span.label_) for spans in doc.spans.values() for span in spans],
        {key: pytest.approx(value, abs=1e-5) for key, value in doc.cats.items()},
    )


@pytest.mark.filterwarnings("ignore:.*W036", "error:ElmoListener")
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("label", CONSUMERS)
def test_it_learns_and_is_saved(label, setting, tiny_folder, tmp_path):
    nlp = make_pipeline(label, setting, str(tiny_folder))
    examples = make_examples(nlp)
    optimizer = initialize(nlp, examples)
    optimizer.learn_rate = 0.02
    if nlp.has_pipe("entity_ruler"):
        nlp.get_pipe("entity_ruler").add_patterns([{"label": "PLACE", "pattern": [{"TEXT": {"REGEX": "ville$"}}]}])
    before = bilm_state(nlp, label)
    losses = [one[label] for one in train(nlp, examples, optimizer, steps=10, annotates=["sentencizer"])]
    assert min(losses[-3:]) < 0.97 * losses[0]
    after = bilm_state(nlp, label)
    assert all(torch.equal(value, before[name]) for name, value in after.items()) is (setting != "fine-tuned")

    texts = [example.text for example in make_examples(nlp, seed=1)]
    predicted = list(nlp.pipe(texts, batch_size=5))
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    from_bytes = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    for text, doc in zip(texts, predicted, strict=True):
        assert annotations(loaded(text)) == annotations(doc)
        assert annotations(from_bytes(text)) == annotations(doc)


def test_a_standalone_source_needs_its_folder_no_more(tiny_folder, tmp_path):
    """The weights are saved with the component."""
    import shutil

    folder = tmp_path / "weights"
    shutil.copytree(tiny_folder, folder)
    nlp = make_pipeline("ner", "standalone", str(folder))
    examples = make_examples(nlp)
    train(nlp, examples, initialize(nlp, examples), steps=2)
    doc = nlp.make_doc("a word")
    expected = nlp.get_pipe("ner").model.get_ref("tok2vec").predict([doc])
    nlp.to_disk(tmp_path / "pipeline")
    shutil.rmtree(folder)
    loaded = spacy.load(tmp_path / "pipeline")
    np.testing.assert_array_equal(loaded.get_pipe("ner").model.get_ref("tok2vec").predict([doc]), expected)
