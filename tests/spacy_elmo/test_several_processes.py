"""`nlp.pipe(..., n_process=2)`: in a process of its own and under a time limit; what goes wrong waits for ever."""

import pytest

from tests.spacy_elmo.conftest import LAYERS, WIDTH
from tests.spacy_elmo.test_entry_points import run_python

PROGRAM = """
import multiprocessing, sys
import numpy as np, spacy, torch
from spacy_elmo import restore_hooks
from tests.spacy_elmo.toy_tasks import add_consumer, make_examples, source_block, tok2vec_block, train

multiprocessing.set_start_method({start!r})
torch.set_num_threads(2)
nlp = spacy.blank("en")
nlp.add_pipe("sentencizer")
nlp.add_pipe("elmo", config={{"model": {folder!r}, "all_layers": True, **{options!r}}})
add_consumer(nlp, "ner", tok2vec_block(source_block("listener", "", width={width}, layers={layers})))
examples = make_examples(nlp)
train(nlp, examples, nlp.initialize(lambda: examples), steps=5)
torch.randn(500, 500) @ torch.randn(500, 500)  # the parent has used torch's threads before it forks
texts = [example.text + " A second sentence ." for example in examples] + [" ", ""]
expected = [nlp(text) for text in texts]
docs = list(nlp.pipe(texts * 5, n_process=2, batch_size=8))
assert [doc.text for doc in docs] == texts * 5
for doc, alone in zip(docs, expected * 5):
    np.testing.assert_allclose(doc._.elmo, alone._.elmo, atol=1e-5)
    np.testing.assert_allclose(doc._.elmo_layers, alone._.elmo_layers, atol=1e-5)
    for token, same in zip(doc, alone):
        np.testing.assert_array_equal(token._.elmo_vector, doc._.elmo[token.i])
    assert [(ent.start, ent.end) for ent in doc.ents] == [(ent.start, ent.end) for ent in alone.ents]
    restored = restore_hooks(doc)
    np.testing.assert_allclose(restored.vector, alone.vector, atol=1e-5)
    if len(doc) > 1:
        assert abs(doc[0].similarity(doc[1]) - alone[0].similarity(alone[1])) < 1e-5
print("done")
"""


@pytest.mark.timeout(150)
@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
@pytest.mark.parametrize("cached", [False, True])
def test_two_processes(tiny_folder, tmp_path, start, cached):
    options = {"cache_size": 10**6, "cache_dir": str(tmp_path / "cache")} if cached else {}
    program = PROGRAM.format(start=start, folder=str(tiny_folder), options=options, width=WIDTH, layers=LAYERS)
    assert run_python(program, OMP_NUM_THREADS="2").strip() == "done"
    if cached:
        assert list((tmp_path / "cache").glob("*/*.index"))
