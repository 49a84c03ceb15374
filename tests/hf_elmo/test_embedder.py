"""What is particular to the embedder; that it equals the model is in test_independence.py."""

from typing import Any

import numpy as np
import pytest

from hf_elmo.embedder import ElmoEmbedder
from tests.hf_elmo.models import random_model

EMBEDDER = ElmoEmbedder(random_model())


def test_shapes() -> None:
    mixed = EMBEDDER.embed([["a", "b"], [], ["c"]])
    assert [vectors.shape for vectors in mixed] == [(2, 12), (0, 12), (1, 12)]
    assert all(vectors.dtype == np.float32 for vectors in mixed)
    layers = EMBEDDER.embed(iter([("a", "b"), ()]), layers="all")
    assert [vectors.shape for vectors in layers] == [(3, 2, 12), (3, 0, 12)]
    assert EMBEDDER.embed([]) == []


def test_vectors_can_be_written_to() -> None:
    vectors = EMBEDDER.embed([["a", "b"]])[0]
    vectors[0] = 0


@pytest.mark.parametrize(
    ("sentences", "error", "message"),
    [
        ([["fine"], ["a", 3]], TypeError, "sentence 1: word 1 is 3"),
        ([["a", "b\ud800"]], ValueError, r"sentence 0: word 1 is 'b\\ud800'"),
        ([["a", None]], TypeError, "word 1 is None"),
        (["not words"], TypeError, "sentence 0: got the string 'not words'"),
    ],
)
def test_words_that_are_none_are_refused(sentences: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        EMBEDDER.embed(sentences)


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="'mix', 'all'"):
        EMBEDDER.embed([["a"]], layers="top")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_words_per_batch: got 0"):
        ElmoEmbedder(random_model(), max_words_per_batch=0)
