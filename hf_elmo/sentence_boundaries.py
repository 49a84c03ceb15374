"""Where the sentences of a row begin and end: the rows of character ids that stand for `<S>` and `</S>`."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hf_elmo.character_ids import BEGIN_SENTENCE, END_SENTENCE


class Sentences(NamedTuple):
    """One sentence of each row of a batch, moved to the left.

    Attributes:
        character_ids: (B, S, C)
        mask: (B, S) bool, True at words.
        positions: (B, S) where each word stood in its row; no position twice.
    """

    character_ids: Tensor
    mask: Tensor
    positions: Tensor

    def put_back(self, x: Tensor, length: int) -> Tensor:
        """(B, S, W) → (B, length, W), each word's vector where the word stood, 0 elsewhere."""
        x = x * self.mask.unsqueeze(-1)
        return x.new_zeros(len(x), length, x.shape[-1]).scatter(1, self.positions.unsqueeze(-1).expand_as(x), x)


def boundaries_of(character_ids: Tensor) -> Tensor:
    """True at `<S>` and `</S>`.

    Shape:
        character_ids (B, T, C) → (B, T)
    """
    mark = character_ids[..., 1]  # (B, T)
    return (mark == BEGIN_SENTENCE) | (mark == END_SENTENCE)


def split_pairs(character_ids: Tensor, mask: Tensor) -> tuple[Sentences, Sentences]:
    """The first and the second sentence of each row, apart, so that the biLM reads neither into the other.

    The second begins at the first `<S>` that directly follows a `</S>`: an `<S>` in the text of a sentence is a word of
    it.  In a row without any `</S>`, as of a tokenizer that adds none, it begins at the second `<S>`.

    Shape:
        character_ids (B, T, C), mask (B, T) bool

    Raises:
        ValueError: a row that is no pair.
    """
    in_second = _begins_second(character_ids[..., 1], mask).cumsum(dim=1) > 0  # (B, T)
    single = (~in_second.any(dim=1)).nonzero()
    if len(single):
        raise ValueError(
            f"character_ids: got one sentence in row {int(single[0, 0])}; expected a pair in every row, as "
            "tokenizer(first, second) returns it."
        )
    return _compact(character_ids, mask & ~in_second), _compact(character_ids, mask & in_second)


def put_back_pair(
    pair: tuple[Sentences, Sentences], layers: Sequence[Sequence[Tensor | None] | None], length: int
) -> tuple[Any, ...] | None:
    """The layers of both sentences as those of their rows.

    Args:
        pair: the sentences.
        layers: of each sentence its layers (B, S, W), or None; a layer may be None.
        length: T, of the rows.

    Shape:
        → layers (B, T, W)
    """
    first, second = layers
    if first is None or second is None:
        return None
    return tuple(
        None if a is None or b is None else pair[0].put_back(a, length) + pair[1].put_back(b, length)
        for a, b in zip(first, second, strict=True)
    )


def _begins_second(marks: Tensor, mask: Tensor) -> Tensor:
    """Where a second sentence may begin.

    Shape:
        marks (B, T) the first character ids of words, mask (B, T) bool → (B, T) bool
    """
    begins, ends = (marks == BEGIN_SENTENCE) & mask, (marks == END_SENTENCE) & mask  # (B, T)
    places = torch.arange(marks.shape[1], device=marks.device).expand_as(marks)
    last = places.masked_fill(~mask, -1).cummax(dim=1).values  # (B, T) the last word so far
    before = torch.cat([last.new_full((len(last), 1), -1), last], dim=1)[:, :-1]  # (B, T) the word before
    follows_end = ends.gather(1, before.clamp(min=0)) & (before >= 0)
    is_second = begins.cumsum(dim=1) > 1
    return begins & torch.where(ends.any(dim=1, keepdim=True), follows_end, is_second)


def _compact(character_ids: Tensor, mask: Tensor) -> Sentences:
    lengths = mask.sum(dim=1, keepdim=True)  # (B, 1)
    longest = int(lengths.max()) if len(lengths) else mask.shape[1]
    positions = mask.int().argsort(dim=1, descending=True, stable=True)[:, :longest]  # (B, S)
    words = torch.arange(longest, device=mask.device) < lengths  # (B, S)
    rows = character_ids.gather(1, positions.unsqueeze(-1).expand(-1, -1, character_ids.shape[-1]))
    return Sentences(rows * words.unsqueeze(-1), words, positions)
