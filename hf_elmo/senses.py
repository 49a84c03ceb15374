"""The uses of a word in a text, which are nearest to each other, and a map of them (Peters et al. 2018, table 4)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hf_elmo.embedder import ElmoEmbedder
from hf_elmo.layer_choice import Layers
from hf_elmo.pretraining.learning_curve import COLOURS, FORMATS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A use stands near others, rather than by itself, if its nearest ones are nearer than those of most.
_NEIGHBOURS_OF_TYPICAL = 5
_SNIPPET_WORDS = 5
_WORDS_BESIDE = 12


class Use(NamedTuple):
    """A word in its sentence.

    Attributes:
        sentence: all words.
        position: of the word.
        number: of the sentence, from 1 on.
    """

    sentence: tuple[str, ...]
    position: int
    number: int

    def around(self, beside: int = _WORDS_BESIDE) -> tuple[str, str, str]:
        """So many words before it, the word, and so many after it, with … where the sentence goes on."""
        before = self.sentence[max(0, self.position - beside) : self.position]
        after = self.sentence[self.position + 1 : self.position + 1 + beside]
        left = ["…"] if self.position > beside else []
        right = ["…"] if self.position + 1 + beside < len(self.sentence) else []
        return " ".join([*left, *before]), self.sentence[self.position], " ".join([*after, *right])


class Uses(NamedTuple):
    """What was found in a text.

    Attributes:
        uses: all, or so many drawn by chance, in the text's order.
        found: how many there are.
    """

    uses: list[Use]
    found: int


class Neighbours(NamedTuple):
    """A use and those nearest to it.

    Attributes:
        source: its place among the uses.
        nearest: places of others, the nearest first.
        cosines: of each with the source.
    """

    source: int
    nearest: list[int]
    cosines: list[float]


def find_uses(
    sentences: Iterable[Sequence[str]], word: str, *, max_uses: int = 2000, ignore_case: bool = True, seed: int = 0
) -> Uses:
    """The uses of a word in a text of any size; of more than `max_uses` each is as likely to be kept (a reservoir).

    Args:
        sentences: words; read once.
        word: what to look for.
        max_uses: how many to keep.
        ignore_case: whether `Play` is a use of `play`.
        seed: of the draw.

    Raises:
        ValueError: `max_uses` below 2.
    """
    if max_uses < 2:
        raise ValueError(f"max_uses: got {max_uses}; expected at least 2.")
    generator, kept, found = random.Random(seed), list[Use](), 0
    for use in _all_uses(sentences, word, ignore_case=ignore_case):
        found += 1
        if len(kept) < max_uses:
            kept.append(use)
        elif (place := generator.randrange(found)) < max_uses:
            kept[place] = use
    return Uses(sorted(kept, key=lambda use: (use.number, use.position)), found)


def vectors_of(uses: Sequence[Use], embedder: ElmoEmbedder, layers: Layers = "top") -> NDArray[np.float32]:
    """The word's vector in each use, of length 1.

    Args:
        uses: a sentence may be there several times.
        embedder: computes them.
        layers: as in `ElmoEmbedder.embed`, one layer only.

    Shape:
        N uses → (N, 2P)
    """
    vectors = [
        layer.reshape(len(use.sentence), -1)[use.position]
        for use, layer in zip(uses, embedder.embed_stream((use.sentence for use in uses), layers=layers), strict=True)
    ]
    stacked = np.stack(vectors)  # (N, 2P)
    return stacked / np.maximum(np.linalg.norm(stacked, axis=1, keepdims=True), 1e-12)


def nearest_uses(uses: Sequence[Use], vectors: NDArray[np.float32], source: int, *, count: int) -> Neighbours:
    """The uses nearest to one by cosine; the source's own sentence, also where it is repeated, is left out.

    Args:
        uses: N of them.
        vectors: of each, of length 1.
        source: which.
        count: how many, and each sentence once.

    Shape:
        vectors (N, W)
    """
    cosines = vectors @ vectors[source]  # (N,)
    seen, nearest = {uses[source].sentence}, list[int]()
    for place in np.argsort(-cosines, kind="stable").tolist():
        if len(nearest) == count:
            break
        if uses[place].sentence not in seen:
            seen.add(uses[place].sentence)
            nearest.append(place)
    return Neighbours(source, nearest, [float(cosines[place]) for place in nearest])


def different_sources(vectors: NDArray[np.float32], count: int) -> list[int]:
    """Uses that differ as much as can be, each with others near: the most typical one first, then the farthest.

    Shape:
        vectors (N, W), of length 1
    """
    typical = _typical(vectors)
    centre = vectors.mean(axis=0)
    chosen = [int(typical[(vectors[typical] @ centre).argmax()])]
    while len(chosen) < min(count, len(typical)):
        nearest_chosen = (vectors[typical] @ vectors[chosen].T).max(axis=1)  # (n,)
        chosen.append(int(typical[nearest_chosen.argmin()]))
    return chosen


def _typical(vectors: NDArray[np.float32]) -> NDArray[np.int64]:
    """The half whose nearest neighbours are nearest: places (n,)."""
    closeness = np.empty(len(vectors), np.float32)
    neighbours = min(_NEIGHBOURS_OF_TYPICAL, len(vectors) - 1)
    for place, vector in enumerate(vectors):
        cosines = vectors @ vector  # (N,)
        # A copy of the same sentence says nothing.
        others = np.where(cosines > 1 - 1e-6, -1.0, cosines)
        closeness[place] = np.sort(others)[len(others) - neighbours :].mean()
    return np.flatnonzero(closeness >= np.median(closeness))


def map_of(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float32], tuple[float, float]]:
    """The two directions in which the vectors differ most (principal components), and their shares of the variance.

    Shape:
        vectors (N, W) → (N, 2)
    """
    centred = vectors - vectors.mean(axis=0)
    _, scales, directions = np.linalg.svd(centred, full_matrices=False)
    if len(directions) < 2:
        directions, scales = np.vstack([directions, np.zeros_like(directions)]), np.append(scales, 0.0)
    shares = scales**2 / max(float((scales**2).sum()), 1e-12)
    return centred @ directions[:2].T, (float(shares[0]), float(shares[1]))


def draw_senses(
    word: str, uses: Sequence[Use], vectors: NDArray[np.float32], neighbours: Sequence[Neighbours], out: str | Path
) -> None:
    """Draw all uses on a plane: each source and its nearest uses in one colour.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: a format that is none of PNG, SVG and PDF.
    """
    out = Path(out)
    if out.suffix.lower() not in FORMATS:
        raise ValueError(f"{out}: got {out.suffix or 'no ending'}; expected {', '.join(FORMATS)}.")
    figure = _figure(word, uses, vectors, neighbours)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out)


def _figure(word: str, uses: Sequence[Use], vectors: NDArray[np.float32], neighbours: Sequence[Neighbours]) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('drawing needs matplotlib: pip install "spacy-elmo[plots]"') from error
    places, shares = map_of(vectors)
    figure = Figure(figsize=(8, 5.5), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    axes.scatter(places[:, 0], places[:, 1], s=8, color="0.8", linewidths=0, zorder=1)
    for number, (source, nearest, _) in enumerate(neighbours):
        colour = COLOURS[number % len(COLOURS)]
        axes.scatter(places[nearest, 0], places[nearest, 1], s=18, color=colour, zorder=2)
        before, found, after = uses[source].around(_SNIPPET_WORDS)
        label = f"{number + 1}: {before} {found} {after}".replace("$", r"\$")
        axes.scatter(
            [places[source, 0]],
            [places[source, 1]],
            s=90,
            color=colour,
            marker="*",
            edgecolors="black",
            zorder=3,
            label=label,
        )
        axes.annotate(str(number + 1), places[source], xytext=(5, 5), textcoords="offset points", fontsize="small")
    axes.set_title(f"{len(uses):,} uses of “{word}”".replace("$", r"\$"), fontsize="medium")
    axes.set_xlabel(f"first principal component ({100 * shares[0]:.0f} % of the variance)")
    axes.set_ylabel(f"second ({100 * shares[1]:.0f} %)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", frameon=False, fontsize="small")
    return figure


def _all_uses(sentences: Iterable[Sequence[str]], word: str, *, ignore_case: bool) -> Iterator[Use]:
    wanted = word.casefold() if ignore_case else word
    for number, sentence in enumerate(sentences, start=1):
        for position, token in enumerate(sentence):
            if (token.casefold() if ignore_case else token) == wanted:
                yield Use(tuple(sentence), position, number)
