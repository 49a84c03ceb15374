"""`<S>` and `</S>` around the sentences of a batch, and away again."""

import torch
import torch.nn.functional as F
from torch import Tensor

from hf_elmo.character_ids import BOS_WORD, EOS_WORD, words_to_character_ids


def add_sentence_boundaries(character_ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Put `<S>` first and `</S>` behind each sentence's last word; a row without a word gets both too.

    Shape:
        character_ids (B, T, C), mask (B, T) → (B, T + 2, C), (B, T + 2)
    """
    boundaries = words_to_character_ids([BOS_WORD, EOS_WORD], max_characters_per_word=character_ids.shape[-1])
    begin, end = torch.from_numpy(boundaries).to(character_ids)  # (C,) each
    rows = torch.arange(len(mask), device=mask.device)
    mask = F.pad(mask, (1, 1))  # (B, T + 2)
    behind = _last_true(mask) + 1  # (B,)
    character_ids = F.pad(character_ids, (0, 0, 1, 1))  # (B, T + 2, C)
    character_ids[:, 0], mask[:, 0] = begin, True
    character_ids[rows, behind], mask[rows, behind] = end, True
    return character_ids, mask


def remove_sentence_boundaries(tensor: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Take the first and the last position out of every row; what is left of a row is 0 after its end.

    Shape:
        tensor (B, T + 2, W), mask (B, T + 2) → (B, T, W), (B, T)
    """
    inner = mask.bool().clone()
    inner[torch.arange(len(mask), device=mask.device), _last_true(inner)] = False
    inner = inner[:, 1:-1]  # (B, T)
    return tensor[:, 1:-1].masked_fill(~inner.unsqueeze(-1), 0), inner.to(mask.dtype)


def _last_true(mask: Tensor) -> Tensor:
    """(B, T) bool → (B,): where a row's last True is, or 0."""
    return (mask * torch.arange(mask.shape[1], device=mask.device)).amax(dim=1)
