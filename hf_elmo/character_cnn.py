"""The token layer: a character CNN with highway layers and a projection (Peters et al. 2018, sections 3.1 and 3.4;
Jozefowicz et al. 2016; Kim et al. 2015).
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.distinct_rows import distinct_rows

# Words are convolved in groups of similar length; more groups trim better but make smaller matrices.
_WORDS_PER_GROUP = 256


class Highway(nn.Module):
    r"""One highway layer (Srivastava et al. 2015): \(x ← g ⊙ t + (1 - g) ⊙ x\), where \(g = σ(W_c x + b_c)\) and
    \(t = \mathrm{relu}(W_t x + b_t)\).

    The original's files call the gate of the transformed part "carry"; name and sign are kept.

    Shape:
        (..., n) → (..., n)
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.carry = nn.Linear(size, size)
        self.transform = nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        """Gate between what is transformed and what is passed on."""
        gate = torch.sigmoid(self.carry(x))  # (..., n)
        return gate * torch.relu(self.transform(x)) + (1 - gate) * x


class CharacterCNN(nn.Module):
    """Character ids of words → context-free word vectors, the biLM's token layer.

    Per filter of width w: convolution over the row's C - w + 1 windows, maximum, activation; then the highway layers
    and, where the filters' total differs from P, the projection.  The windows of padding characters take part in the
    maximum: their embedding is learned.

    Words are independent of each other, so each distinct word is computed once, without the windows that repeat the
    first all-padding window; neither changes a value.

    Shape:
        character_ids: (..., C) integers, 0 = no word → (..., P)
    """

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        width = sum(count for _, count in config.character_filters)
        self.activation = {"relu": torch.relu, "tanh": torch.tanh}[config.character_activation]
        self.embedding = nn.Embedding(config.character_vocab_size, config.character_embedding_size, padding_idx=0)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.character_embedding_size, count, kernel_size)
            for kernel_size, count in config.character_filters
        )
        self.highways = nn.ModuleList(Highway(width) for _ in range(config.num_highway_layers))
        self.projection = nn.Linear(width, config.projection_size) if width != config.projection_size else None
        self.widest = max(kernel_size for kernel_size, _ in config.character_filters)

    def forward(self, character_ids: Tensor) -> Tensor:
        """Vectors of words, each by itself."""
        rows = character_ids.flatten(0, -2)  # (N, C)
        # How many words are distinct, and how long they are, depends on the data: a traced graph computes them all.
        if torch.compiler.is_compiling():
            return self.word_vectors(rows).unflatten(0, character_ids.shape[:-1])
        distinct, index = distinct_rows(rows)  # (U, C), (N,)
        vectors = self._by_length(distinct)  # (U, P)
        return F.embedding(index.view(character_ids.shape[:-1]), vectors)  # (..., P)

    def word_vectors(self, rows: Tensor) -> Tensor:
        """The plain computation: (N, C) → (N, P)."""
        x = self.embedding(rows).transpose(1, 2)  # (N, d, C)
        pooled = [self.activation(convolution(x).amax(dim=2)) for convolution in self.convolutions]  # (N, count) each
        v = torch.cat(pooled, dim=1)  # (N, n_f)
        for highway in self.highways:
            v = highway(v)
        return v if self.projection is None else self.projection(v)  # (N, P)

    def _by_length(self, rows: Tensor) -> Tensor:
        """`word_vectors` in groups of similar length, each cut to its longest word and one all-padding window."""
        if not len(rows):
            return self.word_vectors(rows)
        vectors, groups = [], list(groups_by_length(rows, self.widest))
        for _, trimmed in groups:
            vectors.append(self.word_vectors(trimmed))
        order = torch.cat([group for group, _ in groups])  # (U,)
        return torch.cat(vectors)[order.argsort()]


def groups_by_length(rows: Tensor, widest: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Which rows make up each group, and these rows without the windows that repeat their first all-padding one.

    Shape:
        (U, C) → (G,), (G, at most C) each
    """
    lengths, order = _lengths_before_padding(rows).sort()
    for group, group_lengths in zip(order.split(_WORDS_PER_GROUP), lengths.split(_WORDS_PER_GROUP), strict=True):
        yield group, rows[group, : min(rows.shape[1], int(group_lengths[-1]) + widest)]


def _lengths_before_padding(rows: Tensor) -> Tensor:
    """(U, C) → (U,): after how many characters a row repeats its last one to the end."""
    ends = torch.arange(1, rows.shape[1] + 1, device=rows.device)
    return ((rows != rows[:, -1:]) * ends).amax(dim=1)
