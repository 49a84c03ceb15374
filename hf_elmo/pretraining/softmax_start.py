"""A start for the softmax that saves the first minutes of training."""

import numpy as np
import torch

from hf_elmo.adaptive_lm_head import AdaptiveLMHead
from hf_elmo.lm_head import LMHead


@torch.no_grad()
def start_at_word_frequencies(head: LMHead | AdaptiveLMHead, counts: np.ndarray, num_sentences: int) -> None:
    """Set the biases to the log of each word's relative frequency: the best prediction without any context.

    An adaptive softmax has biases for its frequent words and for each cluster of the others; within a cluster words
    start as they were initialised.

    Args:
        head: the softmax to start.
        counts: (words,) occurrences of every distinct word, the vocabulary's V rows first.
        num_sentences: how often each boundary occurs.

    Raises:
        ValueError: fewer counts than rows.
    """
    rows = head.adaptive.n_classes if isinstance(head, AdaptiveLMHead) else len(head.bias)
    if len(counts) < rows:
        raise ValueError(f"counts: got {len(counts)}; expected at least one for each of the head's {rows} rows.")
    frequency = counts[:rows].astype(np.float64)
    # Each direction predicts one of the two boundaries, and everything outside the vocabulary as `<UNK>`.
    frequency[:2] += num_sentences / 2
    frequency[2] += counts[rows:].sum()
    frequency = np.maximum(frequency, 1.0)
    share = frequency / frequency.sum()
    if isinstance(head, AdaptiveLMHead):
        frequent, *clusters = np.split(share, head.adaptive.cutoffs[:-1])
        head.adaptive.head.bias.copy_(torch.from_numpy(np.log([*frequent, *(part.sum() for part in clusters)])))
    else:
        head.bias.copy_(torch.from_numpy(np.log(share)))
