"""The nearest uses of a word, against searches by hand, and the command."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from hf_elmo.cli.main import main
from hf_elmo.embedder import ElmoEmbedder
from hf_elmo.senses import Use, different_sources, find_uses, map_of, nearest_uses, vectors_of
from tests.hf_elmo.models import random_model

TEXT = [
    "The dog let out a sharp bark .",
    "The bark of the oak was rough .",
    "No such word here .",
    "Bark and bark again .",
]
SENTENCES = [line.split() for line in TEXT]


def test_finding() -> None:
    found = find_uses(SENTENCES, "bark")
    assert [(use.number, use.position) for use in found.uses] == [(1, 6), (2, 1), (4, 0), (4, 2)]
    assert found.found == 4
    assert [use.position for use in find_uses(SENTENCES, "bark", ignore_case=False).uses] == [6, 1, 2]
    with pytest.raises(ValueError, match="max_uses: got 1; expected at least 2"):
        find_uses(SENTENCES, "bark", max_uses=1)


def test_a_reservoir_keeps_each_use_equally_often() -> None:
    """Of 20 uses 5 are kept: each in a quarter of the draws, which is read once, in bounded memory."""
    sentences = [["x"]] * 20
    counts = np.zeros(20)
    for seed in range(800):
        found = find_uses(iter(sentences), "x", max_uses=5, seed=seed)
        assert (len(found.uses), found.found) == (5, 20)
        counts[[use.number - 1 for use in found.uses]] += 1
    assert abs(counts / 800 - 0.25).max() < 0.07  # 4.5 standard deviations
    numbers = [use.number for use in found.uses]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("layers", ["top", "average", [1]])
def test_vectors_are_those_of_the_word(layers: object) -> None:
    embedder = ElmoEmbedder(random_model())
    uses = find_uses(SENTENCES, "bark").uses
    vectors = vectors_of(uses, embedder, layers)  # type: ignore[arg-type]
    for use, vector in zip(uses, vectors, strict=True):
        (expected,) = embedder.embed([use.sentence], layers=layers)  # type: ignore[arg-type]
        expected = expected.reshape(len(use.sentence), -1)[use.position]
        np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), atol=1e-5)


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_nearest_are_those_of_a_search_and_no_sentence_twice() -> None:
    rng = np.random.default_rng(0)
    uses = [Use((str(number // 2), "x"), 1, number) for number in range(12)]  # each sentence twice
    vectors = unit(rng.normal(size=(12, 5)))
    source, nearest, cosines = nearest_uses(uses, vectors, 4, count=3)
    by_cosine = sorted((u for u in range(12) if u // 2 != 2), key=lambda place: -float(vectors[place] @ vectors[4]))
    expected = list(dict.fromkeys(place // 2 for place in by_cosine))[:3]
    assert (source, [place // 2 for place in nearest]) == (4, expected)
    np.testing.assert_allclose(cosines, [vectors[place] @ vectors[4] for place in nearest], atol=1e-6)
    assert len(nearest_uses(uses, vectors, 4, count=99).nearest) == 5


def test_sources_are_of_different_groups() -> None:
    """Three groups of uses and one use by itself: each group has a source, the one by itself is none."""
    rng = np.random.default_rng(1)
    centres = np.eye(4)
    groups = [0] * 9 + [1] * 8 + [2] * 8 + [3]
    vectors = unit(centres[groups] + 0.05 * rng.normal(size=(26, 4)))
    assert sorted(groups[place] for place in different_sources(vectors, 3)) == [0, 1, 2]


def test_the_map_is_of_the_principal_components() -> None:
    vectors = np.random.default_rng(2).normal(size=(30, 6)).astype(np.float32)
    places, shares = map_of(vectors)
    values = np.linalg.eigvalsh(np.cov(vectors.T))[::-1]
    np.testing.assert_allclose(places.var(axis=0, ddof=1), values[:2], rtol=1e-4)
    np.testing.assert_allclose(shares, values[:2] / values.sum(), rtol=1e-4)
    assert map_of(np.ones((2, 1), np.float32))[0].shape == (2, 2)


def test_words_around() -> None:
    use = Use(tuple("abcdefg"), 3, 1)
    assert use.around(2) == ("… b c", "d", "e f …")
    assert use.around(3) == ("a b c", "d", "e f g")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress("\n".join(TEXT).encode()))
    source = ["--source", "The hound answered with a loud bark .", "--nearest", "2"]
    assert main(["senses", "bark", str(path), *source, "--out", str(tmp_path / "map.png")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "“bark”: all 4 uses, layer top" in shown
    assert "hound answered" in shown
    assert (tmp_path / "map.png").read_bytes()[:4] == b"\x89PNG"
    assert main(["senses", "Bark", str(path), "--layer", "token", "--case", "--max-uses", "2"]) == 2
    assert "got 1 uses of 'Bark'; expected at least 2, written like this" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--source", "no such ."], "--source: got 'no such .', which does not have the word 'bark'"),
        (["--layer", "best"], "--layer: got 'best'; expected top, token, average, mix, or a number"),
        (["--layer", "7"], "layers: got [7]"),
        (["--out", "map.txt"], "--out: got 'map.txt'; expected a name that ends in .png, .svg, .pdf"),
        (["--nearest", "0"], "--nearest: got 0; expected at least 1"),
    ],
)
def test_what_is_wrong(arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.txt").write_text("\n".join(TEXT))
    assert main(["senses", "bark", str(tmp_path / "text.txt"), *arguments]) == 2
    assert message in capsys.readouterr().err
