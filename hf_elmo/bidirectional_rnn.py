"""The recurrent layers of a task's own network."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hf_elmo.reading_order import reading_orders


class BidirectionalRNN(nn.Module):
    """Layers of two LSTMs or GRUs, one from left to right, one from right to left.

    A direction reads the words of a row and nothing else, wherever its padding is.

    Args:
        cell: `nn.LSTM` or `nn.GRU`.
        input_size: width of what the first layer reads.
        hidden_size: width of each direction.
        num_layers: at least 1.
        dropout: probability, on the input of the second layer and those after it.
    """

    def __init__(
        self,
        cell: type[nn.LSTM] | type[nn.GRU],
        *,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.output_size = 2 * hidden_size
        sizes = [input_size] + [self.output_size] * (num_layers - 1)
        self.forward_layers = nn.ModuleList(cell(size, hidden_size, batch_first=True) for size in sizes)
        self.backward_layers = nn.ModuleList(cell(size, hidden_size, batch_first=True) for size in sizes)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Read every row.

        Shape:
            x (B, T, W), mask (B, T) bool → (B, T, 2·hidden_size), 0 where there is no word
        """
        orders = reading_orders(mask)
        for depth, (forward, backward) in enumerate(zip(self.forward_layers, self.backward_layers, strict=True)):
            if depth:
                x = F.dropout(x, self.dropout, self.training)
            # Words come first in either order, so that padding is read after all that counts.
            outputs = [
                order.put_back(layer(order.read(x))[0])
                for order, layer in ((orders.forward, forward), (orders.backward, backward))
            ]
            x = torch.cat(outputs, dim=-1) * mask.unsqueeze(-1)  # (B, T, 2·hidden_size)
        return x
