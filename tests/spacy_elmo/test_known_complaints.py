"""What users of contextual vectors in spaCy complain of, and what happens here instead.

Each docstring says the complaint, in brackets where it was made (issues of explosion/spaCy, unless another repository
is named), and what the component `elmo` does.
"""

import gc
import logging
import multiprocessing
import pickle
import shutil
import warnings
import weakref

import numpy as np
import pytest
import spacy
import torch
from spacy.tokens import Doc
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as train_by_config
from thinc.api import Config

from hf_elmo import packed_bilm
from spacy_elmo.config_template import build_config
from tests.lstm_reads import record_reads
from tests.spacy_elmo.conftest import LAYERS, WIDTH
from tests.spacy_elmo.test_entry_points import run_python
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
# Of 362 characters; a thousand of them are as long as the text of issue 7268.
PARAGRAPH = (
    "The old dog let out a sharp bark when the bark of the tree fell, and the boy (of eleven) ran home. \n"
    "Beetles live under it: ants, too!  Nobody in Moperville had seen such a storm since 1875 ...  'We sat on the bank "
    "of the river,' she said; the bank had lent her the money for the boat, and now it lay in pieces on the shore, "
    "which nobody would ever forget again. "
)


@pytest.fixture
def trained(make_nlp):
    """A sentencizer, the shared biLM, a tagger and a recogniser that have learnt something."""
    nlp = make_nlp("sentencizer")
    for label in ("tagger", "ner"):
        add_consumer(nlp, label, tok2vec_block(LISTENER))
    examples = make_examples(nlp, count=40)
    optimizer = initialize(nlp, examples)
    optimizer.learn_rate = 0.02
    train(nlp, examples, optimizer, steps=25)
    return nlp


def predictions(doc: Doc) -> list[tuple[str, ...]]:
    return [(token.text, token.tag_, token.ent_iob_, token.ent_type_) for token in doc]


# Vectors


@pytest.mark.parametrize("saved", [False, True])
def test_vectors_are_on_tokens_spans_and_docs(make_nlp, tmp_path, saved):
    """`token.vector` is empty, `similarity` warns of empty vectors and answers 0 or 1 [#8037, #6511, #7008, #6403].

    Every word has a vector, spans and docs their mean, and `similarity` compares them; after `spacy.load` too.
    """
    nlp = make_nlp()
    if saved:
        nlp.to_disk(tmp_path)
        nlp = spacy.load(tmp_path)
    doc, other = nlp("Hello, my name is Elijah."), nlp("green apple")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for thing in (*doc, doc[1:4], doc):
            assert thing.has_vector
            assert thing.vector.shape == (WIDTH,)
            assert thing.vector.any()
            assert -1 < thing.similarity(other) < 1


def test_the_doc_of_one_word_has_the_words_vector(nlp):
    """A doc's vector, the mean of all rows that a transformer gives, is nothing like its only word's [#9517].

    Rows are tokens: there are none of word pieces or of boundaries among them.
    """
    doc = nlp("VESSEL")
    np.testing.assert_array_equal(doc.vector, doc[0].vector)
    np.testing.assert_array_equal(doc.vector, doc[:].vector)
    assert doc.similarity(doc[0]) == pytest.approx(1.0, abs=1e-6)


def test_the_tensor_is_left_to_tok2vec(make_nlp):
    """Vectors are nowhere in `doc.tensor`, and a `tok2vec` beside the transformer breaks [#9964].

    `doc.tensor` belongs to `tok2vec`, which works before and after `elmo`; `token.vector` is ELMo's all the same.
    """
    for before in (True, False):
        nlp = make_nlp()
        nlp.add_pipe("tok2vec", before="elmo" if before else None)
        nlp.initialize(lambda nlp=nlp: make_examples(nlp))
        doc = nlp("a bank")
        assert doc.tensor.shape == (2, nlp.get_pipe("tok2vec").model.get_dim("nO"))
        np.testing.assert_array_equal(doc[1].vector, doc._.elmo[1])


def test_every_token_of_a_long_doc_has_its_own_row(make_nlp):
    """The alignment points beyond the vectors, or at other words, in long docs and where there is whitespace
    [#7032, #10791, #12622].

    There is no alignment: row i of `doc._.elmo` is token i, whatever stands around it.
    """
    nlp = make_nlp("sentencizer")
    doc, component = nlp(PARAGRAPH * 10), nlp.get_pipe("elmo")
    assert len(doc) == len(doc._.elmo) > 700
    assert any(token.is_space for token in doc)
    for sentence in doc.sents:
        words = [token for token in sentence if not token.is_space]
        if not words:
            continue
        alone = component(Doc(nlp.vocab, words=[token.text for token in words]))
        rows = np.stack([token.vector for token in words])
        np.testing.assert_allclose(rows, alone._.elmo, rtol=0, atol=2e-6)
        np.testing.assert_allclose(sentence.vector, alone._.elmo.mean(axis=0), rtol=0, atol=2e-6)


# Memory


@pytest.mark.slow
@pytest.mark.parametrize("boundaries", [True, False])
def test_a_long_doc_is_read_in_bounded_memory(make_nlp, monkeypatch, boundaries):
    """A doc of 361,000 characters needs more memory than a GPU has [#7268]; rows of numbers even more [#8065].

    What the biLM holds at once is bounded, whatever the doc's length, with sentence boundaries and without; the
    numbers of the vectors that are returned are all that grows.
    """
    reads = record_reads(monkeypatch)
    nlp = make_nlp(*(["sentencizer"] if boundaries else []))
    doc = nlp(PARAGRAPH * (1000 if boundaries else 100))
    assert len(doc.text) >= (361_000 if boundaries else 36_100)
    assert max(read.positions for read in reads) <= packed_bilm.POSITIONS_PER_READ
    assert sum(read.positions for read in reads) > 4 * 0.8 * len(
        doc
    )  # two layers, two directions: that is where the words went
    assert doc._.elmo.any(axis=1).sum() == sum(not token.is_space for token in doc)


def numbers_alive() -> int:
    """Numbers in every tensor that anything in this process refers to."""
    gc.collect()
    return sum(thing.numel() for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor))


def test_a_doc_that_is_gone_leaves_nothing_behind(trained):
    """Memory grows from doc to doc until the process ends [#7593, #8554, #9432, #12037].

    A doc holds the numbers of its own vectors and nothing of the biLM; without the doc they are gone.
    """
    texts = [example.text for example in make_examples(trained, count=40, seed=3)]
    list(trained.pipe(texts))  # spellings are remembered, up to a bound; all of these are now
    before = numbers_alive()
    for _ in range(3):
        arrays = [weakref.ref(doc._.elmo) for doc in trained.pipe(texts, batch_size=7)]
        assert len(arrays) == len(texts)
        assert numbers_alive() <= before
        assert not any(array() is not None for array in arrays)


def test_a_doc_does_not_hold_the_batch_it_was_read_in(make_nlp):
    """Docs that are kept are as large as the batches they came from [#12037].

    Each doc's array is its own.
    """
    for layered in (False, True):
        for doc in make_nlp(all_layers=layered).pipe(["a word", "and three more"] * 20):
            for array in (doc._.elmo, doc._.elmo_layers):
                while array is not None:
                    assert array.size <= len(doc) * WIDTH * LAYERS
                    array = array.base if isinstance(array.base, np.ndarray) else None


def test_docs_that_are_kept_can_be_emptied(trained):
    """Every doc keeps the transformer's output after the last component has read it [#12037].

    spaCy's `doc_cleaner` takes ELMo's away, what was handed to the other components included.
    """
    expected = [predictions(doc) for doc in trained.pipe([PARAGRAPH, "a word"])]
    trained.add_pipe("doc_cleaner", config={"attrs": {"_.elmo": None, "user_hooks": {}}, "silent": False})
    docs = list(trained.pipe([PARAGRAPH, "a word"]))
    assert [predictions(doc) for doc in docs] == expected
    for doc in docs:
        assert doc._.elmo is None
        assert doc.user_hooks == {}


# Speed


def test_batching_reads_docs_together(make_nlp, monkeypatch):
    """A larger `batch_size` makes nothing faster [#13500].

    Docs that arrive together are read together, those of one length in one step of the LSTM.
    """
    reads = record_reads(monkeypatch)
    nlp = make_nlp()
    counts = {}
    for batch_size in (1, 32):
        reads.clear()
        list(nlp.pipe(["ten words of text are in this short doc now"] * 64, batch_size=batch_size))
        counts[batch_size] = sum(read.steps for read in reads)
    assert counts[1] == 32 * counts[32]


def test_a_word_is_spelled_and_a_sentence_read_once(make_nlp, monkeypatch):
    """The same text costs the same time again, a transformer pipeline is slow on a CPU [#10735, #9922].

    The character CNN remembers words; with `cache_size` or `cache_dir` the biLM remembers sentences.
    """
    nlp = make_nlp("sentencizer", cache_size=10**7)
    component = nlp.get_pipe("elmo")
    text = "The bark. A bank. The bark."
    list(nlp.pipe([text] * 10))
    words = component.load().word_cache_statistics
    assert words.misses == len({"The", "bark", ".", "A", "bank", "<S>", "</S>"})
    assert component.shim.cache.statistics.misses == 2
    monkeypatch.setattr(packed_bilm.PackedBiLM, "read", lambda *_: pytest.fail("the biLM ran"))
    assert nlp(text)._.elmo.any()


def test_nothing_is_read_from_the_disk_for_a_doc(tiny_folder, tmp_path):
    """The model's configuration is read again for each sentence [spacy-transformers#204].

    Once the weights are loaded their folder may go.
    """
    folder = shutil.copytree(tiny_folder, tmp_path / "weights")
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": str(folder)}).load()
    shutil.rmtree(folder)
    assert nlp("a word")._.elmo.any()


# Several processes

_SEVERAL = """
import multiprocessing, pickle, sys
import torch
from pathlib import Path

nlp = pickle.loads(Path({path!r}).read_bytes())

def tags(text):
    return [(token.tag_, token.ent_iob_) for token in nlp(text)]

if __name__ == "__main__":
    torch.set_num_threads(2)
    torch.randn(500, 500) @ torch.randn(500, 500)  # PyTorch has its threads before a process is forked
    texts = ["Hello world"] * 20 + ["The moper bark in Moperville ."] * 20
    expected = [tags(text) for text in texts]
    if {way!r} == "pipe":
        found = [[(token.tag_, token.ent_iob_) for token in doc] for doc in nlp.pipe(texts, n_process=2, batch_size=5)]
    else:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            found = pool.map(tags, texts)
    assert found == expected
    print("done")
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="processes cannot be forked here")
@pytest.mark.parametrize("way", ["pipe", "pool"])
def test_several_processes_come_to_an_end(trained, tmp_path, way):
    """`nlp.pipe(n_process=2)` and workers of `multiprocessing` wait for ever [#6662, #4667], or need "spawn", which is
    slow [#9922].

    A forked worker computes with one thread, and needs none of those that stayed with its parent.
    """
    path = tmp_path / "nlp.pickle"
    path.write_bytes(pickle.dumps(trained))
    printed = run_python(_SEVERAL.format(path=str(path), way=way), OMP_NUM_THREADS="2")
    assert printed.strip() == "done"


# Freezing


def corpus_config(tmp_path, tiny_folder, **training) -> Config:
    """NER and a tagger on the toy corpus, for spaCy's own training loop."""
    from spacy.tokens import DocBin

    docs = [example.reference for example in make_examples(spacy.blank("en"), count=40)]
    DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / "corpus.spacy")
    config = build_config(pipeline=["tagger", "ner"], model=str(tiny_folder))
    config["paths"].update(train=str(tmp_path / "corpus.spacy"), dev=str(tmp_path / "corpus.spacy"))
    config["training"].update(max_steps=20, eval_frequency=10, **training)
    return config


@pytest.mark.parametrize("listed", [False, True])
def test_freezing_works(tmp_path, tiny_folder, caplog, listed):
    """A transformer in `frozen_components` ends in "Cannot get dimension 'nO'" [#11547, #10939], and where it does not
    spaCy warns [#7568]; `grad_factor = 0` still computes every gradient [#6377].

    The biLM is frozen by itself.  In `frozen_components` it works as well, as long as it annotates.
    """
    more = {"frozen_components": ["elmo"], "annotating_components": ["sentencizer", "elmo"]} if listed else {}
    with caplog.at_level(logging.WARNING, logger="spacy"):
        nlp = init_nlp(corpus_config(tmp_path, tiny_folder, **more))
        before = {name: value.clone() for name, value in nlp.get_pipe("elmo").bilm.state_dict().items()}
        with open(tmp_path / "log", "w", encoding="utf-8") as log:
            train_by_config(nlp, stdout=log, stderr=log)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    after = nlp.get_pipe("elmo").bilm
    assert all(torch.equal(value, before[name]) for name, value in after.state_dict().items())
    assert not any(parameter.grad is not None for parameter in after.parameters())
    scores = nlp.evaluate(make_examples(nlp, count=40))
    assert scores["tag_acc"] > 0.5


def test_a_frozen_bilm_that_does_not_annotate_is_an_error(tmp_path, tiny_folder):
    """Training on a frozen transformer goes wrong with a message about something else [#11547, #7568].

    The message names the component, and the line of the configuration that is missing.
    """
    nlp = init_nlp(corpus_config(tmp_path, tiny_folder, frozen_components=["elmo"]))
    with (
        open(tmp_path / "log", "w", encoding="utf-8") as log,
        pytest.raises(ValueError, match=r"component 'tagger'.*annotating_components = \[\"elmo\"\]"),
    ):
        train_by_config(nlp, stdout=log, stderr=log)


def test_frozen_components_predict_as_before(trained, tmp_path):
    """A frozen component gives other, uninformed answers once others were trained beside it [#7599].

    The biLM that it shares does not change, so neither does what it predicts.
    """
    texts = [example.text for example in make_examples(trained, seed=2)]
    expected = [[token.tag_ for token in doc] for doc in trained.pipe(texts)]
    before = trained.get_pipe("ner").model.to_bytes()
    examples = make_examples(trained, count=20, seed=5)
    train(trained, examples, trained.resume_training(), steps=5, exclude=["tagger"])
    assert trained.get_pipe("ner").model.to_bytes() != before
    trained.to_disk(tmp_path)
    assert [[token.tag_ for token in doc] for doc in spacy.load(tmp_path).pipe(texts)] == expected


def test_a_frozen_component_is_sourced(tmp_path, tiny_folder, caplog):
    """Sourced and frozen components next to a new one bring warnings W086 and W087 of spaCy, or an error
    [#7568, #11547], and get worse where the transformer is trained [#7599].

    `elmo` among the frozen and the annotating components is what spaCy asks for: it is silent, and the biLM, which is
    frozen anyway, leaves the others' predictions alone.
    """
    trained = init_nlp(corpus_config(tmp_path, tiny_folder))
    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        train_by_config(trained, stdout=log, stderr=log)
        trained.to_disk(tmp_path / "trained")
        texts = [example.text for example in make_examples(trained, seed=2)]
        lists = {"frozen_components": ["elmo", "tagger"], "annotating_components": ["sentencizer", "elmo"]}
        config = corpus_config(tmp_path, tiny_folder, **lists)
        for name in ("elmo", "tagger"):
            config["components"][name] = {"source": str(tmp_path / "trained")}
        config["initialize"]["components"] = {}
        with caplog.at_level(logging.WARNING, logger="spacy"):
            nlp = init_nlp(config)
            train_by_config(nlp, stdout=log, stderr=log)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
    expected = [[token.tag_ for token in doc] for doc in trained.pipe(texts)]
    assert [[token.tag_ for token in doc] for doc in nlp.pipe(texts)] == expected


# Machines


@pytest.mark.slow
def test_neither_cupy_nor_a_gpu_is_needed(tiny_folder):
    """ "Cannot use GPU, CuPy is not installed" [#13700, #12641], also with `prefer_gpu` on Apple's machines [#11641].

    Without cupy `prefer_gpu` leaves everything on the CPU; the biLM's own `device` asks PyTorch alone.
    """
    printed = run_python(
        "import sys\n"
        "sys.modules['cupy'] = None  # importing it fails\n"
        "import spacy\n"
        "spacy.prefer_gpu()\n"
        "nlp = spacy.blank('en')\n"
        f"nlp.add_pipe('elmo', config={{'model': {str(tiny_folder)!r}, 'device': 'cpu'}})\n"
        "doc = nlp('a word')\n"
        "assert type(doc._.elmo).__module__ == 'numpy'\n"
        "nlp.from_bytes(nlp.to_bytes())\n"
        "elmo = nlp.add_pipe('elmo', name='other', config={'device': 'cuda:9'})\n"
        "try:\n"
        "    elmo.load()\n"
        "except ValueError as error:\n"
        "    assert 'PyTorch' in str(error) or 'as many GPUs are here' in str(error), error\n"
        "    assert 'cupy' not in str(error).lower()\n"
        "    print('done')\n"
    )
    assert printed.strip() == "done"


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", ["blank", "saved"])
def test_no_network_is_asked(make_nlp, tmp_path, pipeline):
    """A saved pipeline, or a local model, still asks the Hugging Face Hub [#9957, #13370].

    The package holds a model; a folder and a saved pipeline hold theirs.  No connection is tried, also where nobody
    said HF_HUB_OFFLINE.
    """
    make_nlp("sentencizer").to_disk(tmp_path)
    build = "spacy.blank('en')\nnlp.add_pipe('elmo')" if pipeline == "blank" else f"spacy.load({str(tmp_path)!r})"
    printed = run_python(
        "import socket\n"
        "def refuse(*arguments, **options):\n"
        "    raise AssertionError('a connection was tried')\n"
        "socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse\n"
        "import spacy\n"
        f"nlp = {build}\n"
        "print(nlp('a word')._.elmo.any())",
        HF_HUB_OFFLINE="0",
    )
    assert printed.strip() == "True"


# Asked for


def test_elmo_is_trained_on_in_a_pipeline(make_nlp, tmp_path):
    """ELMo was asked for, as features for one's own small corpus [#3772, #4204].

    A component, a block, and `nlp.initialize`.
    """
    nlp = make_nlp()
    add_consumer(nlp, "ner", mixed_block(LISTENER))
    examples = make_examples(nlp)
    optimizer = initialize(nlp, examples)
    optimizer.learn_rate = 0.02
    losses = train(nlp, examples, optimizer, steps=20)
    assert losses[-1]["ner"] < 0.5 * losses[0]["ner"]
