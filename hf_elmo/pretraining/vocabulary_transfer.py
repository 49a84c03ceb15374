"""A softmax over another vocabulary, started from the one a model has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from hf_elmo.lm_head import LMHead
from hf_elmo.pretraining.vocabulary import UNK_ROW


@torch.no_grad()
def transfer_head(
    old: LMHead, old_vocabulary: Sequence[str], new: LMHead, new_vocabulary: Sequence[str], counts: np.ndarray
) -> int:
    """Start `new` where `old` stands, and return how many of its rows are words of both vocabularies.

    A word of both keeps its weights and bias.  To the old softmax all other words were `<UNK>`: each begins with the
    weights of `<UNK>`, and with a share of its probability that is the word's share of what is outside the old
    vocabulary in the training text; `<UNK>` itself keeps the rest:

        b_w = b_UNK + log(count_w / Σ_v count_v), v over the new words and `<UNK>`

    So whatever the old softmax gave to `<UNK>`, the new one gives to these words together, and the ratios between all
    other words stay.  Words of the old vocabulary that the new one lacks are left out.

    Args:
        old, new: the two softmaxes, of the same width.
        old_vocabulary, new_vocabulary: their words, row by row.
        counts: (words,) occurrences of every distinct word in the training text, the new vocabulary first.

    Raises:
        ValueError: a vocabulary that is not the softmax's.
    """
    for head, vocabulary in ((old, old_vocabulary), (new, new_vocabulary)):
        if len(head.bias) != len(vocabulary):
            raise ValueError(f"got {len(vocabulary)} words for a softmax of {len(head.bias)} rows; expected one a row.")
    places = {word: row for row, word in enumerate(old_vocabulary)}
    rows = np.array([places.get(word, -1) for word in new_vocabulary])  # (V,) of the old softmax
    was_unknown = rows < 0
    rows[was_unknown] = UNK_ROW
    counts_of_rows = counts[: len(rows)].astype(np.float64)
    counts_of_rows[UNK_ROW] += counts[len(rows) :].sum()
    from_unknown = was_unknown.copy()
    from_unknown[UNK_ROW] = True
    shares = np.maximum(counts_of_rows[from_unknown], 1.0)
    log_shares = np.zeros(len(rows))
    log_shares[from_unknown] = np.log(shares / shares.sum())
    index = torch.from_numpy(rows)
    new.weight.copy_(old.weight[index])
    new.bias.copy_(old.bias[index].double() + torch.from_numpy(log_shares))
    return int((~was_unknown).sum())
