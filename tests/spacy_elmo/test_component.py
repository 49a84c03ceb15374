import itertools
import pickle
import shutil

import numpy as np
import pytest
import spacy
import torch
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import ignore_error
from transformers import AutoModel

from hf_elmo import ElmoModel
from hf_elmo.embedder import ElmoEmbedder
from spacy_elmo.component import ElmoComponent, _collect
from tests.spacy_elmo.conftest import LAYERS, WIDTH
from tests.spacy_elmo.test_entry_points import run_python

VOCAB = spacy.blank("en").vocab
TEXTS = [
    "The dog let out a sharp bark .",
    "",
    "Beetles live under  the bark of the tree .",
    " \n ",
    "bark",
    "She paid the money in . Then she left the bank .",
]


@pytest.fixture(scope="session")
def embedder(tiny_folder) -> ElmoEmbedder:
    return ElmoEmbedder(ElmoModel.from_pretrained(tiny_folder))


@pytest.fixture(scope="session")
def exact_nlp(make_nlp) -> Language:
    """In float64, so that the order of a sum cannot hide or excuse a difference."""
    nlp = make_nlp()
    nlp.get_pipe("elmo").bilm.double()
    return nlp


def doc_of(*words: str, sent_starts: list[bool | None] | None = None) -> Doc:
    return Doc(VOCAB, words=list(words), sent_starts=sent_starts)


def assert_same(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-6)


def test_a_docs_vectors_are_the_models(nlp, embedder):
    doc = nlp(TEXTS[0])
    (expected,) = embedder.embed([[token.text for token in doc]])
    assert_same(doc._.elmo, expected)
    assert np.abs(doc._.elmo[0] - doc._.elmo[4]).max() > 0.01  # words differ


def test_a_word_depends_on_its_sentence(nlp):
    one, other = nlp("a sharp bark"), nlp("a brown bark")
    assert np.abs(one._.elmo[2] - other._.elmo[2]).max() > 1e-4


@pytest.mark.parametrize("batch_size", [1, 2, 100])
@pytest.mark.parametrize("max_words_per_batch", [1, 12, 4096])
def test_pipe_gives_what_single_calls_give(make_nlp, nlp, batch_size, max_words_per_batch):
    docs = list(make_nlp(max_words_per_batch=max_words_per_batch).pipe(TEXTS, batch_size=batch_size))
    assert [doc.text for doc in docs] == TEXTS
    for doc, text in zip(docs, TEXTS, strict=True):
        assert_same(doc._.elmo, nlp(text)._.elmo)


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
spaces = st.sampled_from([" ", "\n", "　", "\t \n"])
tokens = st.lists(st.tuples(st.one_of(words, words, spaces), st.booleans()), max_size=7)


@given(docs=st.lists(tokens, min_size=1, max_size=6), batch_size=st.integers(1, 7), data=st.data())
def test_a_vector_depends_on_nothing_but_its_sentence(exact_nlp, docs, batch_size, data):
    """Not on batch mates, order, whitespace tokens or the sentences before and after."""
    order = data.draw(st.permutations(range(len(docs))))
    built = [doc_of(*[w for w, _ in docs[i]], sent_starts=[start for _, start in docs[i]]) for i in order]
    component = exact_nlp.get_pipe("elmo")
    for doc in component.pipe(iter(built), batch_size=batch_size):
        for sentence in doc.sents:
            shown = [token for token in sentence if not token.is_space]
            alone = component(doc_of(*[token.text for token in shown]))
            whole = [alone[i]._.elmo_vector for i in range(len(shown))] or np.zeros((0, WIDTH))
            np.testing.assert_allclose(
                [token._.elmo_vector for token in shown] or np.zeros((0, WIDTH)), whole, rtol=1e-6, atol=1e-9
            )
            assert not any(token._.elmo_vector.any() for token in sentence if token.is_space)


def test_sentence_boundaries_are_used_where_set(make_nlp, nlp):
    text = TEXTS[-1]
    split, whole = make_nlp("sentencizer")(text), nlp(text)
    first, second = (nlp(sentence.text) for sentence in split.sents)
    assert_same(split._.elmo, np.concatenate([first._.elmo, second._.elmo]))
    assert np.abs(whole._.elmo - split._.elmo).max() > 1e-4


def test_a_boundary_on_some_tokens_is_enough(nlp):
    component = nlp.get_pipe("elmo")
    partly = component(doc_of("a", "b", "c", "d", sent_starts=[None, None, True, None]))
    assert_same(partly._.elmo[2:], component(doc_of("c", "d"))._.elmo)


def test_whitespace_is_not_shown_to_the_model(nlp):
    spaced, plain = nlp(" the  old\n bark "), nlp("the old bark")
    shown = [not token.is_space for token in spaced]
    assert len(spaced) > len(plain) == sum(shown)
    assert_same(spaced._.elmo[shown], plain._.elmo)
    assert not spaced._.elmo[~np.array(shown)].any()


def test_layers_and_mix_come_from_one_another(make_nlp, nlp, embedder):
    layered = make_nlp("sentencizer", all_layers=True)
    mix = layered.get_pipe("elmo").bilm.scalar_mix
    share = torch.softmax(mix.weights, 0).detach().numpy()
    for doc in layered.pipe(TEXTS):
        assert doc._.elmo_layers.shape == (len(doc), LAYERS, WIDTH)
        assert doc._.elmo_layers.dtype == doc._.elmo.dtype == np.float32
        expected = mix.gamma.item() * np.einsum("l,tlw->tw", share, doc._.elmo_layers)
        assert_same(doc._.elmo, expected)
    doc = layered(TEXTS[0])
    (layers,) = embedder.embed([[token.text for token in doc]], layers="all")
    assert_same(doc._.elmo_layers, layers.swapaxes(0, 1))
    assert_same(doc._.elmo, nlp(TEXTS[0])._.elmo)


def test_a_stream_is_not_read_to_its_end(nlp):
    endless = nlp.pipe((f"text {i}" for i in itertools.count()), batch_size=3)
    assert [doc.text for doc in itertools.islice(endless, 4)] == ["text 0", "text 1", "text 2", "text 3"]


def test_long_docs_are_collected_in_smaller_groups():
    docs = [doc_of(*["word"] * n) for n in (3, 3, 10, 1, 1, 1, 1)]
    groups = [[len(doc) for doc in group] for group in _collect(docs, max_docs=3, max_words=5)]
    assert groups == [[3, 3], [10], [1, 1, 1], [1]]
    assert list(_collect([], max_docs=3, max_words=5)) == []


def fail(doc: Doc):
    raise RuntimeError("no sentences today")


def faulty_stream(nlp: Language) -> list[Doc]:
    docs = [nlp.make_doc(text) for text in ("one two", "three four", "five six")]
    docs[1].user_hooks["sents"] = fail
    return docs


def test_a_failing_doc_goes_to_the_error_handler_alone(make_nlp):
    nlp = make_nlp()
    failed = []
    component = nlp.get_pipe("elmo")
    component.set_error_handler(lambda name, proc, docs, error: failed.append((name, proc, docs, str(error))))
    docs = faulty_stream(nlp)
    assert list(nlp.pipe(docs, batch_size=10)) == [docs[0], docs[2]]
    assert failed == [("elmo", component, [docs[1]], "no sentences today")]
    assert docs[0]._.elmo is not None
    assert docs[1]._.elmo is None
    assert component(docs[1]) is docs[1]
    assert len(failed) == 2


def test_errors_are_raised_without_an_error_handler(nlp):
    docs = faulty_stream(nlp)
    with pytest.raises(RuntimeError, match="no sentences today"):
        list(nlp.pipe(docs))
    with pytest.raises(RuntimeError, match="no sentences today"):
        nlp.get_pipe("elmo")(docs[1])


@pytest.mark.parametrize(
    "run", [lambda nlp: nlp("word"), lambda nlp: list(nlp.pipe(["word"])), lambda nlp: nlp.initialize()]
)
def test_a_missing_model_is_named(run, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": str(tmp_path / "nowhere")})
    with pytest.raises(OSError, match="nowhere"):
        run(nlp)


def test_a_missing_model_is_no_matter_for_the_error_handler(tmp_path):
    component = ElmoComponent(model=str(tmp_path / "nowhere"))
    component.set_error_handler(ignore_error)
    with pytest.raises(OSError, match="nowhere"):
        component(doc_of("word"))
    with pytest.raises(OSError, match="nowhere"):
        list(component.pipe([doc_of("word")]))


def test_an_impossible_batch_size_is_refused():
    with pytest.raises(ValueError, match="max_words_per_batch: got 0"):
        ElmoComponent(max_words_per_batch=0)


def test_a_saved_pipeline_needs_no_other_model(tiny_folder, tmp_path):
    original = tmp_path / "original"
    shutil.copytree(tiny_folder, original)
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("elmo", config={"model": str(original), "all_layers": True})
    expected = nlp(TEXTS[-1])
    nlp.to_disk(tmp_path / "pipeline")
    shutil.rmtree(original)
    doc = spacy.load(tmp_path / "pipeline")(TEXTS[-1])
    np.testing.assert_array_equal(doc._.elmo, expected._.elmo)
    np.testing.assert_array_equal(doc._.elmo_layers, expected._.elmo_layers)


def test_saved_weights_are_a_hugging_face_folder(nlp, tmp_path):
    nlp.to_disk(tmp_path)
    loaded = AutoModel.from_pretrained(tmp_path / "elmo" / "model")
    for name, value in nlp.get_pipe("elmo").bilm.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value), name


def test_changed_weights_are_the_ones_saved(make_nlp, tmp_path):
    nlp = make_nlp()
    with torch.no_grad():
        nlp.get_pipe("elmo").bilm.scalar_mix.gamma.fill_(-2.0)
    expected = nlp(TEXTS[0])
    nlp.to_disk(tmp_path)
    np.testing.assert_array_equal(spacy.load(tmp_path)(TEXTS[0])._.elmo, expected._.elmo)


def test_bytes_hold_the_whole_model(nlp, tmp_path):
    fresh = spacy.blank("en")
    fresh.add_pipe("elmo", config={"model": str(tmp_path / "nowhere")})
    fresh.from_bytes(nlp.to_bytes())
    np.testing.assert_array_equal(fresh(TEXTS[0])._.elmo, nlp(TEXTS[0])._.elmo)


def test_the_model_can_be_left_out(tiny_folder, tmp_path):
    component = ElmoComponent(model=str(tiny_folder))
    component.to_disk(tmp_path, exclude=["model"])
    assert list(tmp_path.iterdir()) == []
    component.from_disk(tmp_path, exclude=["model"])
    component.from_bytes(component.to_bytes(exclude=["model"]), exclude=["model"])
    assert component(doc_of("word"))._.elmo.any()


def test_what_is_missing_from_a_saved_component_is_named(tmp_path):
    component = ElmoComponent(name="context")
    with pytest.raises(FileNotFoundError, match=r"'context': got no saved model at .*expected config\.json"):
        component.from_disk(tmp_path)
    with pytest.raises(ValueError, match=r"got bytes that hold \[\].*expected config\.json"):
        component.from_bytes(component.to_bytes(exclude=["model"]))


def test_a_pickled_component_works(nlp):
    component = nlp.get_pipe("elmo")
    expected = component(doc_of("a", "word"))._.elmo
    loaded = pickle.loads(pickle.dumps(component))
    assert loaded.name == "elmo"
    np.testing.assert_array_equal(loaded(doc_of("a", "word"))._.elmo, expected)


@pytest.mark.timeout(120)
def test_two_processes_do_not_wait_for_each_other(tiny_folder):
    """The parent has used torch's threads before it forks."""
    printed = run_python(
        "import numpy as np, spacy, torch\n"
        "from spacy_elmo import restore_hooks\n"
        "torch.set_num_threads(2)\n"
        "nlp = spacy.blank('en')\n"
        f"nlp.add_pipe('elmo', config={{'model': {str(tiny_folder)!r}}})\n"
        "torch.randn(500, 500) @ torch.randn(500, 500)\n"
        "texts = ['The dog let out a sharp bark .', 'tree bark', ''] * 40\n"
        "expected = [nlp(text) for text in texts]\n"
        "docs = list(nlp.pipe(texts, n_process=2, batch_size=16))\n"
        "assert [doc.text for doc in docs] == texts\n"
        "for doc, alone in zip(docs, expected):\n"
        "    assert np.abs(doc._.elmo - alone._.elmo).max(initial=0) < 1e-5\n"
        "    assert np.abs(restore_hooks(doc).vector - alone.vector).max() < 1e-5\n"
        "print('done')",
        OMP_NUM_THREADS="2",
    )
    assert printed.strip() == "done"


def test_precision_reaches_the_embedder(make_nlp, monkeypatch):
    monkeypatch.setattr("hf_elmo.embedder.check_precision", lambda *arguments: None)  # whatever this CPU can do
    assert make_nlp(precision="bf16").get_pipe("elmo").load().precision == "bf16"
    assert make_nlp().get_pipe("elmo").load().precision == "fp32"
    with pytest.raises(ValueError, match="precision: got 'double'; expected one of 'fp32', 'bf16', 'int8'"):
        make_nlp(precision="double")
