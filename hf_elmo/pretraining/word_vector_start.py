"""A start from static word vectors such as GloVe: what they know of words need not be learned again from the text."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from hf_elmo.character_ids import words_to_character_ids
from hf_elmo.lm_head import LMHead
from hf_elmo.modeling_elmo import ElmoForPreTraining

logger = logging.getLogger(__name__)

# How many of the most frequent words the token layer is fitted on, and how fast.  Words are drawn by the root of their
# frequency: drawn alike, the fit of the words that make up most of the text stays at chance.
_MOST_FREQUENT = 60_000
_WORDS_PER_STEP = 512
_LEARNING_RATE = 1e-2


class WordVectors(NamedTuple):
    """Standardised vectors of those words of a list that a file has.

    Attributes:
        rows: (n,) which words of the list.
        vectors: (n, d) mean 0 and standard deviation 1 in every component.
    """

    rows: Tensor
    vectors: Tensor


def read_word_vectors(path: str | Path, words: Sequence[str]) -> WordVectors:
    """Vectors of `words` from a text file, plain or .gz: a word and its numbers a line, word2vec's header or none.

    A word that the file does not have as it is takes the vector of its lower-case form.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is not as expected, or the file has none of the words.
    """
    path = Path(path)
    wanted = set(words) | {word.lower() for word in words}
    found: dict[str, np.ndarray] = {}
    size = 0
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            word, *numbers = line.rstrip("\n").split(" ")
            if number == 1 and len(numbers) == 1:
                continue
            size = size or len(numbers)
            if word in wanted:
                found[word] = _vector(numbers, size, where=f"{path}, line {number}")
    given = [(row, found.get(word, found.get(word.lower()))) for row, word in enumerate(words)]
    rows = [row for row, vector in given if vector is not None]
    if not rows:
        raise ValueError(
            f"{path}: got vectors of none of the {len(words):,} words; expected vectors of their language."
        )
    vectors = torch.from_numpy(np.stack([vector for _, vector in given if vector is not None]))  # (n, d)
    standardised = (vectors - vectors.mean(dim=0)) / vectors.std(dim=0, correction=0).clamp(min=1e-6)
    return WordVectors(torch.tensor(rows), standardised)


def _vector(numbers: Sequence[str], size: int, *, where: str) -> np.ndarray:
    try:
        vector = np.array(numbers, np.float32)
    except ValueError as error:
        raise ValueError(f"{where}: got {' '.join(numbers)[:40]!r}; expected a word and its numbers.") from error
    if len(vector) != size or not np.isfinite(vector).all():
        raise ValueError(f"{where}: got {len(vector)} numbers; expected {size} finite ones, as in the first line.")
    return vector


@torch.no_grad()
def start_softmax_from(model: ElmoForPreTraining, vectors: WordVectors) -> None:
    """Set the first components of the softmax's rows to the words' vectors, at the scale of the random start.

    The other components, and words without a vector, keep the random start.

    Raises:
        ValueError: an adaptive softmax, most of whose words have rows of another width.
    """
    if not isinstance(model.lm_head, LMHead):
        raise ValueError(
            f"word_vectors: got a model with lm_softmax {model.config.lm_softmax!r}; expected 'sampled' or 'full', "
            "whose words have a row each."
        )
    weight = model.lm_head.weight
    in_vocabulary = vectors.rows < len(weight)
    width = min(weight.shape[1], vectors.vectors.shape[1])
    weight[vectors.rows[in_vocabulary], :width] = vectors.vectors[in_vocabulary, :width] * weight.shape[1] ** -0.5


def start_token_layer_from(
    model: ElmoForPreTraining,
    words: Sequence[str],
    counts: np.ndarray,
    vectors: WordVectors,
    *,
    steps: int,
    seed: int,
) -> None:
    """Fit the character CNN so that the first components of a word's token layer are its vector (mean squared error).

    Args:
        model: its `elmo.character_cnn` is trained.
        words: all words, the most frequent first.
        counts: (words,) how often each occurs.
        vectors: vectors of some of them.
        steps: updates of 512 words each.
        seed: of the order of the words.
    """
    cnn = model.elmo.character_cnn
    most_frequent = vectors.rows < _MOST_FREQUENT
    rows, targets = vectors.rows[most_frequent], vectors.vectors[most_frequent]
    spelling = torch.from_numpy(
        words_to_character_ids(
            [words[row] for row in rows.tolist()], max_characters_per_word=model.config.max_characters_per_word
        )
    )  # (n, C)
    width = min(model.config.projection_size, targets.shape[1])
    targets = targets[:, :width]  # (n, width)
    optimizer = torch.optim.AdamW(cnn.parameters(), lr=_LEARNING_RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=_LEARNING_RATE, total_steps=steps)
    generator = torch.Generator().manual_seed(seed)
    frequency = torch.from_numpy(counts).to(torch.float64)[rows]  # (n,)
    loss = torch.tensor(float("nan"))
    for _ in range(steps):
        chosen = torch.multinomial(frequency.sqrt(), _WORDS_PER_STEP, replacement=True, generator=generator)
        predicted = cnn(spelling[chosen].to(model.device))  # (512, P)
        loss = F.mse_loss(predicted[:, :width], targets[chosen].to(model.device))
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    logger.info(f"token layer fitted to {len(rows):,} word vectors: mean squared error {loss.item():.3f} (1 is chance)")
