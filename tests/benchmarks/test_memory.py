"""Memory does not grow with a stream's length, nor a sentence's working memory with the sentence's."""

from pathlib import Path
from typing import Any

import pytest

from hf_elmo import ElmoConfig, ElmoModel
from tests.benchmarks import memory

# Cheap to compute, but not small: all words' vectors and gates at once would show.
SIZES: dict[str, Any] = {
    "lstm_size": 512,
    "projection_size": 32,
    "num_highway_layers": 1,
    "character_embedding_size": 4,
    "character_filters": [[1, 4], [2, 8], [3, 8]],
}
BYTES_OF_VECTORS = 4 * 3 * 2 * SIZES["projection_size"]  # of a word, all layers
BYTES_OF_GATES = 4 * 4 * SIZES["lstm_size"]  # of a word, one layer and direction


def test_a_stream_has_its_words_in_order_and_new_ones_among_them() -> None:
    found = list(memory.stream([["a", "b", "c"], ["d", "e"]], 20))
    assert found[:3] == [["a0", "b", "c"], ["d", "e"], ["a", "b", "c"]]
    assert found[3] == ["d8", "e"]
    assert sum(map(len, found)) == 20


@pytest.mark.slow
def test_memory_is_bounded(tmp_path: Path) -> None:
    ElmoModel(ElmoConfig(**SIZES)).save_pretrained(tmp_path)
    arguments = ["--size", str(tmp_path), "--stream", "100000", "400000", "--sentence", "50000", "--only"]
    stream = memory.in_fresh_process([*arguments, "stream"])
    vectors_between = 300_000 * BYTES_OF_VECTORS
    assert stream["400000"] - stream["100000"] < vectors_between / 2
    sentence = memory.in_fresh_process([*arguments, "sentence"])
    assert sentence["vectors"] == 50_000 * BYTES_OF_VECTORS
    assert sentence["after"] - sentence["before"] - sentence["vectors"] < 50_000 * BYTES_OF_GATES / 2
