import torch

from hf_elmo.allennlp import batch_to_ids, remove_sentence_boundaries
from hf_elmo.allennlp.sentence_boundaries import add_sentence_boundaries
from tests.oracles import numpy_elmo


def test_boundaries_stand_around_each_sentence_and_a_row_without_words_has_both() -> None:
    batch = [["a", "b", "c"], ["d"], []]
    ids = batch_to_ids(batch)
    with_boundaries, mask = add_sentence_boundaries(ids, (ids > 0).any(-1))
    assert mask.int().tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 0, 0, 0]]
    for row, row_mask, sentence in zip(with_boundaries, mask, batch, strict=True):
        assert row[row_mask].tolist() == numpy_elmo.sentence_to_ids(sentence).tolist()
        assert not row[~row_mask].any()


def test_a_sentence_padded_on_the_left_keeps_its_places() -> None:
    ids = batch_to_ids([["a", "b"]])
    padded = torch.cat([torch.zeros_like(ids), ids], dim=1)
    with_boundaries, mask = add_sentence_boundaries(padded, (padded > 0).any(-1))
    assert mask.int().tolist() == [[1, 0, 0, 1, 1, 1]]
    assert with_boundaries[mask].tolist() == numpy_elmo.sentence_to_ids(["a", "b"]).tolist()


def test_removing_undoes_adding() -> None:
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]])
    tensor = torch.arange(1.0, 21).reshape(4, 5, 1) * torch.ones(2)
    stripped, stripped_mask = remove_sentence_boundaries(tensor, mask)
    assert stripped_mask.tolist() == [[1, 1, 1], [1, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert stripped_mask.dtype == mask.dtype
    assert stripped[..., 0].tolist() == [[2, 3, 4], [7, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert stripped.shape == (4, 3, 2)
