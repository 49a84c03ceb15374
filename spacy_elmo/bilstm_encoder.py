"""`spacy_elmo.BiLSTMEncoder.v1`: a biLSTM over each doc, whatever the batch."""

from collections.abc import Callable
from typing import Any

import safetensors.torch
import torch
from thinc.api import Model, PyTorchWrapper_v3
from thinc.types import Floats2d
from torch import Tensor, nn

Vectors = list[Floats2d]


def build_bilstm_encoder(width: int, depth: int = 1, dropout: float = 0.0) -> Model[Vectors, Vectors]:
    """An encoder for `ElmoTok2Vec.v1` and `spacy.Tok2Vec.v2`, with the arguments of `spacy.TorchBiLSTMEncoder.v1`.

    That one pads the docs of a batch, and its backward direction reads the padding first: what it gives for a doc
    depends on the longest doc beside it.  This one starts at each doc's own last token.

    Args:
        width: of the input and the output, half of it for each direction.
        depth: number of layers.
        dropout: between layers, in training.

    Shape:
        per doc (tokens, width) → (tokens, width)

    Raises:
        ValueError: an odd width, or an option out of range.
    """
    if width < 2 or width % 2 or depth < 1 or not 0 <= dropout < 1:
        raise ValueError(
            f"BiLSTMEncoder: got width = {width}, depth = {depth} and dropout = {dropout}; expected an even width, a "
            "depth of 1 or more, and a dropout from 0 to below 1."
        )
    lstm = PyTorchWrapper_v3(
        PackedBiLSTM(width, depth, dropout),
        serialize_model=_to_bytes,
        deserialize_model=_from_bytes,
    )
    return Model("bilstm_encoder", forward, layers=[lstm], dims={"nI": width, "nO": width})


def forward(model: Model[Vectors, Vectors], docs: Vectors, is_train: bool) -> tuple[Vectors, Callable[[Vectors], Any]]:
    """Read every doc from both ends."""
    lengths = [len(doc) for doc in docs]
    if not any(lengths):
        return docs, lambda d_docs: d_docs
    ops: Any = model.ops
    rows, back_to_rows = model.layers[0]((ops.flatten(docs), [n for n in lengths if n]), is_train)

    def backprop(d_docs: Vectors) -> Vectors:
        unflattened: Vectors = ops.unflatten(back_to_rows(ops.flatten(d_docs))[0], lengths)
        return unflattened

    return ops.unflatten(rows, lengths), backprop


class PackedBiLSTM(nn.Module):
    """PyTorch's LSTM in both directions on sequences of different lengths.

    Args:
        width: of the input and the output.
        depth: number of layers.
        dropout: between layers.
    """

    def __init__(self, width: int, depth: int, dropout: float) -> None:
        super().__init__()
        self.lstm = nn.LSTM(
            width, width // 2, depth, batch_first=True, bidirectional=True, dropout=dropout if depth > 1 else 0.0
        )

    def forward(self, rows: Tensor, lengths: list[int]) -> Tensor:
        """One sequence after the other, (N, W) → (N, W); lengths sum up to N."""
        packed = nn.utils.rnn.pack_sequence(list(rows.split(lengths)), enforce_sorted=False)
        padded, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)  # (B, T, W)
        return torch.cat([one[:length] for one, length in zip(padded, lengths, strict=True)])


def _to_bytes(model: nn.Module) -> bytes:
    return safetensors.torch.save({name: value.contiguous() for name, value in model.state_dict().items()})


def _from_bytes(model: nn.Module, data: bytes, device: torch.device) -> nn.Module:
    model.load_state_dict(safetensors.torch.load(data))
    return model.to(device)
