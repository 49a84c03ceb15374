import gzip

import numpy as np
import pytest
import torch

from hf_elmo import ElmoForPreTraining
from hf_elmo.character_ids import words_to_character_ids
from hf_elmo.pretraining.word_vector_start import read_word_vectors, start_softmax_from, start_token_layer_from
from tests.hf_elmo.models import tiny_config

WORDS = ["<S>", "</S>", "<UNK>", "the", "Dog", "cat", "unheard", "bark"]
COUNTS = np.array([0, 0, 9, 90, 5, 4, 3, 1])
LINES = ["the 1 2 3", "dog 4 4 4", "Cat 9 9 9", "cat -1 0 2", "bark 0.5 1e-1 0"]


@pytest.mark.parametrize("header", [[], ["5 3"]])
@pytest.mark.parametrize("name", ["vectors.txt", "vectors.txt.gz"])
def test_vectors_are_found_by_word_or_its_lower_case_and_standardised(tmp_path, header, name):
    path = tmp_path / name
    text = "\n".join([*header, *LINES]) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    found = read_word_vectors(path, WORDS)
    assert [WORDS[row] for row in found.rows] == ["the", "Dog", "cat", "bark"]
    given = torch.tensor([[1, 2, 3], [4, 4, 4], [-1, 0, 2], [0.5, 0.1, 0]])
    torch.testing.assert_close(found.vectors.mean(dim=0), torch.zeros(3), atol=1e-6, rtol=0)
    torch.testing.assert_close(found.vectors.std(dim=0, correction=0), torch.ones(3))
    torch.testing.assert_close(torch.corrcoef(torch.stack([found.vectors[:, 0], given[:, 0]]))[0, 1], torch.tensor(1.0))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["the 1 2 3", "dog 1 2"], "line 2: got 2 numbers; expected 3"),
        (["the 1 2 x"], "line 1: got '1 2 x'; expected a word and its numbers"),
        (["the 1 nan 3"], "line 1: got 3 numbers; expected 3 finite ones"),
        (["le 1 2 3"], "got vectors of none of the 9 words; expected vectors of their language"),
    ],
)
def test_a_file_that_is_not_as_expected(tmp_path, lines, message):
    path = tmp_path / "vectors.txt"
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=message):
        read_word_vectors(path, [*WORDS, "dog"])


def test_the_softmax_starts_at_the_vectors_and_keeps_the_rest(tmp_path):
    (tmp_path / "v.txt").write_text("\n".join(LINES))
    vectors = read_word_vectors(tmp_path / "v.txt", WORDS)
    model = ElmoForPreTraining(tiny_config(vocab_size=8))  # a softmax over 7 words: "bark" is outside it
    before = model.lm_head.weight.detach().clone()
    start_softmax_from(model, vectors)
    width = model.config.projection_size
    torch.testing.assert_close(model.lm_head.weight[[3, 4, 5], :3], vectors.vectors[:3] * width**-0.5)
    torch.testing.assert_close(model.lm_head.weight[:, 3:], before[:, 3:])
    torch.testing.assert_close(model.lm_head.weight[[0, 1, 2, 6]], before[[0, 1, 2, 6]])


def test_the_token_layer_learns_the_vectors_and_is_the_same_each_time(tmp_path):
    (tmp_path / "v.txt").write_text("\n".join(LINES))
    vectors = read_word_vectors(tmp_path / "v.txt", WORDS)
    spelling = torch.from_numpy(words_to_character_ids([WORDS[row] for row in vectors.rows]))

    def started() -> torch.Tensor:
        torch.manual_seed(0)
        model = ElmoForPreTraining(tiny_config())
        start_token_layer_from(model, WORDS, COUNTS, vectors, steps=300, seed=1)
        return model.elmo.character_cnn(spelling)[:, :3].detach()

    fitted = started()
    assert torch.nn.functional.mse_loss(fitted, vectors.vectors) < 0.05  # the vectors' variance is 1
    torch.testing.assert_close(started(), fitted, rtol=0, atol=0)


def test_an_adaptive_softmax_has_no_place_for_vectors(tmp_path):
    (tmp_path / "v.txt").write_text("\n".join(LINES))
    vectors = read_word_vectors(tmp_path / "v.txt", WORDS)
    model = ElmoForPreTraining(tiny_config(vocab_size=9, lm_softmax="adaptive", adaptive_cutoffs=[4]))
    with pytest.raises(ValueError, match="got a model with lm_softmax 'adaptive'; expected 'sampled' or 'full'"):
        start_softmax_from(model, vectors)
