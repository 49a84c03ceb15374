"""The biLM's layers for inference: each direction reads a packed batch by itself, in bounded working memory."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from hf_elmo.modeling_elmo import ElmoLayer, ElmoModel
from hf_elmo.packed_batch import BACKWARD, FORWARD, PackedBatch
from hf_elmo.packed_lstm import PackedLSTM
from hf_elmo.prepacked_linear import Precision

# How many positions the LSTMs hold at once, whatever the batch or the length of a sentence; a step of more sentences
# than that is read as one.  At the original's size the gates of as many are 64 MiB.
POSITIONS_PER_READ = 1024

Receive = Callable[[int, Tensor, Sequence[Tensor]], None]


class PackedBiLM:
    """The LSTMs of a model.

    Args:
        model: what is to be computed; its weights are not followed when they change.
        dtype: of the activations, float32 or float64.
        precision: of the products.
    """

    def __init__(self, model: ElmoModel, *, dtype: torch.dtype, precision: Precision) -> None:
        layers: list[ElmoLayer] = list(model.layers)  # type: ignore[arg-type]
        self.dtype = dtype
        self._initial_state = model.initial_state
        self._skips = [layer.skip for layer in layers]
        self._lstms = [
            [PackedLSTM(lstm, dtype=dtype, precision=precision) for lstm in (layer.forward_lstm, layer.backward_lstm)]
            for layer in layers
        ]

    def read(self, token_vectors: Tensor, words: Tensor, lengths: Sequence[int], depth: int, receive: Receive) -> None:
        """Compute the layers of some sentences, each from the model's initial state.

        A direction never sees the other, so that each goes from its own begin to its own end through all its layers,
        some steps at a time; what is held does not grow with the length of a sentence.

        Args:
            token_vectors: of distinct words.
            words: for each position, of one sentence after the other, which of them it is.
            lengths: positions of each sentence.
            depth: the highest layer to compute; 0 is the token layer.
            receive: called with a direction, positions, and that direction's half of layers 0 to `depth` there.

        Shape:
            token_vectors (U, P), words (N,), lengths sum up to N; receives (n,) and depth + 1 tensors (n, P)
        """
        batch = PackedBatch(lengths)
        for direction in (FORWARD, BACKWARD):
            state = self._initial_state(batch.num_sentences, like=token_vectors)
            cells = [cell[direction].clone() for cell in state.cell]  # L × (B, D)
            hiddens = [hidden[direction].clone() for hidden in state.hidden]  # L × (B, P)
            for sizes, read in batch.steps(direction, POSITIONS_PER_READ):
                positions = torch.from_numpy(read).to(words.device)  # (n,)
                layers = [token_vectors.index_select(0, words[positions])]  # (n, P) each
                for layer in range(depth):
                    lstm = self._lstms[layer][direction]
                    outputs = lstm.read(layers[-1], sizes, cells[layer], hiddens[layer])
                    layers.append(outputs.add_(layers[-1]) if self._skips[layer] else outputs)
                receive(direction, positions, layers)
