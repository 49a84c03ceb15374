import pickle
import warnings

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin, Token

from spacy_elmo import restore_hooks
from tests.spacy_elmo.conftest import LAYERS, WIDTH
from tests.spacy_elmo.test_entry_points import run_python

TEXT = "She went to the bank  and sat on the bank ."
FIRST, SPACE, SECOND = 4, 5, 10


@pytest.fixture
def doc(nlp) -> Doc:
    return nlp(TEXT)


def cosine(a, b) -> float:
    return float(np.dot(a, b) / np.linalg.norm(a) / np.linalg.norm(b))


def test_attributes_are_rows_and_means_of_the_docs_vectors(doc):
    vectors = doc._.elmo
    assert vectors.shape == (len(doc), WIDTH)
    assert vectors.dtype == np.float32
    span = doc[SPACE : SPACE + 3]
    np.testing.assert_array_equal(doc[FIRST]._.elmo_vector, vectors[FIRST])
    np.testing.assert_array_equal(span._.elmo, vectors[SPACE : SPACE + 3])
    np.testing.assert_allclose(span._.elmo_vector, vectors[SPACE + 1 : SPACE + 3].mean(axis=0), rtol=1e-6)
    words = [i for i in range(len(doc)) if i != SPACE]
    np.testing.assert_allclose(doc._.elmo_vector, vectors[words].mean(axis=0), rtol=1e-6)


def test_layers_are_kept_on_request(make_nlp):
    doc = make_nlp(all_layers=True)(TEXT)
    layers = doc._.elmo_layers
    assert layers.shape == (len(doc), LAYERS, WIDTH)
    np.testing.assert_array_equal(doc[3]._.elmo_layers, layers[3])
    np.testing.assert_array_equal(doc[2:5]._.elmo_layers, layers[2:5])
    assert not layers[SPACE].any()


def test_without_the_request_there_are_no_layers(doc):
    assert doc._.elmo_layers is None
    assert doc[1]._.elmo_layers is None
    assert doc[1:3]._.elmo_layers is None


def test_hooks_read_the_docs_vectors(doc):
    np.testing.assert_array_equal(doc[SECOND].vector, doc._.elmo[SECOND])
    np.testing.assert_array_equal(doc[2:4].vector, doc[2:4]._.elmo_vector)
    np.testing.assert_array_equal(doc.vector, doc._.elmo_vector)
    for thing in (doc[SECOND], doc[2:4], doc):
        assert thing.has_vector
        assert thing.vector_norm == pytest.approx(np.linalg.norm(thing.vector), rel=1e-6)


def test_similarity_compares_contexts_not_spellings(doc):
    first, second = doc[FIRST], doc[SECOND]
    assert first.text == second.text
    expected = cosine(first.vector, second.vector)
    assert expected < 0.999
    for one, other in ((first, second), (doc[FIRST : FIRST + 1], doc[SECOND : SECOND + 1])):
        assert one.similarity(other) == pytest.approx(expected, abs=1e-6)
    assert first.similarity(first) == pytest.approx(1.0, abs=1e-9)
    assert doc.similarity(doc[0:3]) == pytest.approx(cosine(doc.vector, doc[0:3].vector), abs=1e-6)
    assert first.similarity(doc) == doc.similarity(first)


def test_whitespace_has_no_vector(doc):
    space = doc[SPACE]
    assert space.is_space
    assert not space.has_vector
    assert not space.vector.any()
    assert space.vector.shape == (WIDTH,)
    with pytest.warns(UserWarning, match="W008"):
        assert space.similarity(doc[FIRST]) == 0.0
    with pytest.warns(UserWarning, match="W008"):
        assert doc.similarity(space) == 0.0


@pytest.mark.parametrize("text", ["", "  \n\t "])
def test_docs_without_words(nlp, text):
    doc = nlp(text)
    assert doc._.elmo.shape == (len(doc), WIDTH)
    assert not doc._.elmo.any()
    assert doc.vector.shape == (WIDTH,)
    assert not doc.has_vector
    assert doc.vector_norm == 0.0
    with pytest.warns(UserWarning, match="W008"):
        assert doc.similarity(nlp("word")) == 0.0


def test_elmo_comes_before_static_vectors_and_the_tensor(make_nlp):
    nlp = make_nlp()
    nlp.vocab.set_vector("bank", np.ones(5, dtype=np.float32))
    doc = nlp("a bank")
    assert doc[1].vector.shape == (WIDTH,)
    doc.tensor = np.ones((2, 3), dtype=np.float32)
    assert doc[1].vector.shape == (WIDTH,)


def test_set_vectors_false_leaves_spacys_vectors_alone(make_nlp):
    nlp = make_nlp(set_vectors=False)
    nlp.vocab.set_vector("bank", np.ones(5, dtype=np.float32))
    doc = nlp("a bank")
    np.testing.assert_array_equal(doc[1].vector, np.ones(5))
    assert doc[1]._.elmo_vector.shape == (WIDTH,)
    assert not doc.user_token_hooks


def test_vectors_of_different_width_cannot_be_compared(make_nlp, doc):
    other = Doc(doc.vocab, words=["bank"])
    other.user_token_hooks["vector"] = lambda token: np.ones(5)
    with pytest.raises(ValueError, match=f"width {WIDTH} and one of width 5"):
        doc[FIRST].similarity(other[0])


def test_a_doc_without_elmo_is_no_match(nlp, doc):
    with pytest.warns(UserWarning, match="W008"):
        assert doc[FIRST].similarity(nlp.make_doc("bank")[0]) == 0.0


def test_before_the_component_ran_attributes_are_none(nlp):
    doc = nlp.make_doc(TEXT)
    assert doc._.elmo is None
    assert doc._.elmo_vector is None
    assert doc[0]._.elmo_vector is None
    assert doc[:2]._.elmo is None
    assert doc[:2]._.elmo_vector is None


@pytest.mark.parametrize("change", ["merge", "split"])
def test_retokenizing_is_noticed(doc, change):
    with doc.retokenize() as retokenizer:
        if change == "merge":
            retokenizer.merge(doc[0:2])
        else:
            retokenizer.split(doc[FIRST], ["ba", "nk"], heads=[doc[FIRST], doc[FIRST]])
    readings = (
        lambda: doc.vector,
        lambda: doc.has_vector,
        lambda: doc[0].vector,
        lambda: doc[:2].vector,
        lambda: doc[0]._.elmo_vector,
        lambda: doc[:2]._.elmo,
        lambda: restore_hooks(doc),
    )
    for read in readings:
        with pytest.raises(ValueError, match=f"got 12 rows for a doc of {len(doc)} tokens"):
            read()


def test_running_again_after_retokenizing_mends_it(nlp, doc):
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    nlp.get_pipe("elmo")(doc)
    assert doc[0].vector.shape == (WIDTH,)
    assert len(doc._.elmo) == len(doc) == 11


def test_bytes_keep_vectors_and_lose_hooks(doc):
    with pytest.warns(UserWarning, match="W109"):
        data = doc.to_bytes()
    loaded = Doc(doc.vocab).from_bytes(data)
    np.testing.assert_array_equal(loaded._.elmo, doc._.elmo)
    assert loaded._.elmo.dtype == np.float32
    assert loaded[FIRST].vector.size == 0
    assert restore_hooks(loaded) is loaded
    np.testing.assert_array_equal(loaded[FIRST].vector, doc[FIRST].vector)
    assert loaded[FIRST].similarity(loaded[SECOND]) == doc[FIRST].similarity(doc[SECOND])


def test_doc_bin_keeps_vectors_as_user_data(make_nlp):
    nlp = make_nlp(all_layers=True)
    doc = nlp(TEXT)
    saved = DocBin(store_user_data=True, docs=[doc]).to_bytes()
    (loaded,) = DocBin().from_bytes(saved).get_docs(spacy.blank("en").vocab)
    np.testing.assert_array_equal(loaded._.elmo_layers, doc._.elmo_layers)
    np.testing.assert_array_equal(restore_hooks(loaded).vector, doc.vector)


def test_restoring_hooks_without_vectors_says_what_to_do(nlp, doc):
    (loaded,) = DocBin(docs=[doc]).get_docs(nlp.vocab)
    with pytest.raises(ValueError, match=r"12 tokens without ELMo vectors.*store_user_data=True"):
        restore_hooks(loaded)


def test_a_pickled_doc_keeps_its_hooks_in_a_fresh_process(doc, tmp_path):
    path = tmp_path / "doc.pickle"
    path.write_bytes(pickle.dumps(doc))
    printed = run_python(
        "import pickle, pathlib, spacy\n"
        f"doc = pickle.loads(pathlib.Path({str(path)!r}).read_bytes())\n"
        f"assert (doc[{FIRST}].vector == doc._.elmo[{FIRST}]).all()\n"
        f"print(doc[{FIRST}].similarity(doc[{SECOND}]))"
    )
    assert float(printed) == pytest.approx(doc[FIRST].similarity(doc[SECOND]), abs=1e-12)


def test_a_copy_of_a_doc_keeps_everything(doc):
    copy = doc.copy()
    np.testing.assert_array_equal(copy[FIRST].vector, doc[FIRST].vector)


def test_as_doc_keeps_the_spans_vector_and_no_more(doc):
    span = doc[6:11]
    part = span.as_doc()
    assert part._.elmo is None
    np.testing.assert_array_equal(part.vector, span.vector)
    assert part.has_vector
    assert not part[0].has_vector
    assert part[0].vector.size == 0
    assert not part[1:3].has_vector


@pytest.mark.parametrize("copy_user_data", [False, True])
def test_as_doc_takes_the_spans_rows(doc, copy_user_data):
    span = doc[6:11]
    part = span.as_doc(copy_user_data=copy_user_data)
    assert part._.elmo is None
    part._.elmo = span._.elmo
    np.testing.assert_array_equal(part[1].vector, span[1].vector)
    np.testing.assert_array_equal(part.vector, span.vector)


def test_without_data_hooks_give_static_vectors(nlp):
    nlp.vocab.set_vector("bank", np.ones(5, dtype=np.float32))
    part = nlp("my bank here")[0:2].as_doc()
    np.testing.assert_array_equal(part[1].vector, np.ones(5))
    assert part[1].has_vector
    assert not part[0].has_vector
    np.testing.assert_array_equal(part[0:2].vector, np.full(5, 0.5))


def test_a_stale_norm_is_not_reported(nlp):
    doc = nlp.make_doc("a bank")
    assert doc.vector_norm == 0.0  # spaCy remembers this one
    nlp.get_pipe("elmo")(doc)
    assert doc.vector_norm == pytest.approx(np.linalg.norm(doc.vector), rel=1e-6)


def test_anothers_attribute_of_the_same_name_is_not_overwritten():
    from spacy_elmo import vectors

    original = Token.get_extension("elmo_vector")
    Token.set_extension("elmo_vector", getter=len, force=True)
    try:
        with pytest.raises(ValueError, match="E090"):
            vectors._register(Token, "elmo_vector", getter=vectors._get_token_row)
    finally:
        Token.set_extension("elmo_vector", getter=original[2], force=True)


def test_reading_vectors_warns_of_nothing(doc):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        doc[FIRST].similarity(doc[SECOND])
        doc.similarity(doc[2:5])
