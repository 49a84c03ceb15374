"""The biLM's layers for inference: each direction reads a packed batch, in bounded working memory."""

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from hf_elmo.both_directions import run_both
from hf_elmo.modeling_elmo import ElmoLayer, ElmoModel
from hf_elmo.packed_batch import BACKWARD, FORWARD, PackedBatch
from hf_elmo.packed_lstm import PackedLSTM
from hf_elmo.paired_lstm import PairedLSTM
from hf_elmo.prepacked_linear import Precision
from hf_elmo.projected_lstm import ProjectedLSTM

# How many positions the LSTMs hold at once, whatever the batch or the length of a sentence; a step of more sentences
# than that is read as one.  At the original's size the gates of as many are 64 MiB.
POSITIONS_PER_READ = 1024

Receive = Callable[[int, Tensor, Sequence[Tensor]], None]


class PackedBiLM:
    """The LSTMs of a model.

    Args:
        model: what is to be computed; its weights are laid out when they are first needed, for batches and for single
            sentences apart, and are not followed when they change.
        dtype: of the activations, float32 or float64.
        precision: of the products.
    """

    def __init__(self, model: ElmoModel, *, dtype: torch.dtype, precision: Precision) -> None:
        self.dtype = dtype
        self.precision: Precision = precision
        self._layers: list[ElmoLayer] = list(model.layers)  # type: ignore[arg-type]
        self._initial_state = model.initial_state

    def read(self, token_vectors: Tensor, words: Tensor, lengths: Sequence[int], depth: int, receive: Receive) -> None:
        """Compute the layers of some sentences, each from the model's initial state.

        A direction never sees the other, so that each goes from its own begin to its own end through all its layers,
        some steps at a time; what is held does not grow with the length of a sentence.

        Args:
            token_vectors: of distinct words.
            words: for each position, of one sentence after the other, which of them it is.
            lengths: positions of each sentence.
            depth: the highest layer to compute; 0 is the token layer.
            receive: called with a direction, positions, and that direction's half of layers 0 to `depth` there; by two
                threads at once, each with a direction of its own.

        Shape:
            token_vectors (U, P), words (N,), lengths sum up to N; receives (n,) and depth + 1 tensors (n, P)
        """
        # Lower precisions round the sums, so that another way of summing would tell a sentence alone from one of many.
        if len(lengths) == 1 and self.precision == "fp32":
            self._read_sentence(token_vectors, words, depth, receive)
        else:
            self._read_batch(token_vectors, words, lengths, depth, receive)

    def _read_batch(
        self, token_vectors: Tensor, words: Tensor, lengths: Sequence[int], depth: int, receive: Receive
    ) -> None:
        """Each direction by itself."""
        batch, lstms = PackedBatch(lengths), self._packed

        def read(direction: int) -> None:
            state = self._initial_state(batch.num_sentences, like=token_vectors)
            cells = [cell[direction].clone() for cell in state.cell]  # L × (B, D)
            hiddens = [hidden[direction].clone() for hidden in state.hidden]  # L × (B, P)
            for sizes, steps in batch.steps(direction, POSITIONS_PER_READ):
                positions = torch.from_numpy(steps).to(words.device)  # (n,)
                layers = [token_vectors.index_select(0, words[positions])]  # (n, P) each
                for layer in range(depth):
                    outputs = lstms[layer][direction].read(layers[-1], sizes, cells[layer], hiddens[layer])
                    layers.append(outputs.add_(layers[-1]) if self._layers[layer].skip else outputs)
                receive(direction, positions, layers)

        run_both(read, token_vectors.device)

    def _read_sentence(self, token_vectors: Tensor, words: Tensor, depth: int, receive: Receive) -> None:
        """Both directions at once."""
        state = self._initial_state(1, like=token_vectors)
        cells = [cell.clone() for cell in state.cell]  # L × (2, 1, D)
        hiddens = [hidden.clone() for hidden in state.hidden]  # L × (2, 1, P)
        positions = torch.arange(len(words), device=words.device)  # (N,)
        for forward in positions.split(POSITIONS_PER_READ):
            read = torch.stack([forward, len(words) - 1 - forward], dim=1)  # (n, 2)
            layers = [token_vectors[words[read]]]  # (n, 2, P) each
            for layer in range(depth):
                outputs = self._paired[layer].read(layers[-1], cells[layer], hiddens[layer])
                layers.append(outputs.add_(layers[-1]) if self._layers[layer].skip else outputs)
            for direction in (FORWARD, BACKWARD):
                receive(direction, read[:, direction], [outputs[:, direction] for outputs in layers])

    @functools.cached_property
    def _packed(self) -> list[list[PackedLSTM]]:
        """By layer and direction."""
        return [
            [PackedLSTM(lstm, dtype=self.dtype, precision=self.precision) for lstm in _directions(layer)]
            for layer in self._layers
        ]

    @functools.cached_property
    def _paired(self) -> list[PairedLSTM]:
        """By layer."""
        return [PairedLSTM(_directions(layer), dtype=self.dtype) for layer in self._layers]


def _directions(layer: ElmoLayer) -> list[ProjectedLSTM]:
    return [layer.forward_lstm, layer.backward_lstm]
