"""The scalar mix as AllenNLP has it: the same parameters under the same names, the same layer norm."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import Parameter, ParameterList

from hf_elmo.scalar_mix import batch_norm

# The reference's tiny values: what is added to the variance, by precision.
_EPS, _EPS_HALF = 1e-13, 1e-4


class ScalarMix(nn.Module):
    r"""\(γ \sum_k s_k h_k\) with \(s = \mathrm{softmax}(w)\) (Peters et al. 2018, equation 1).

    `hf_elmo.scalar_mix.ScalarMix` computes the same from one vector of weights; here each weight is a parameter of its
    own, `scalar_parameters.0` and so on, so that checkpoints are exchanged with AllenNLP.

    Args:
        mixture_size: number of tensors.
        do_layer_norm: normalise each tensor first, by one mean and one variance over all its unmasked elements. A
            sentence then depends on its batch mates.
        initial_scalar_parameters: w; 0 by default.
        trainable: whether w and γ are trained.

    Raises:
        ValueError: another number of initial values than `mixture_size`.
    """

    def __init__(
        self,
        mixture_size: int,
        do_layer_norm: bool = False,
        initial_scalar_parameters: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:
        super().__init__()
        initial = [0.0] * mixture_size if initial_scalar_parameters is None else list(initial_scalar_parameters)
        if len(initial) != mixture_size:
            raise ValueError(
                f"initial_scalar_parameters: got {len(initial)} values, {initial}; expected {mixture_size}, one for "
                "each layer (the token layer is one of them)."
            )
        self.mixture_size = mixture_size
        self.do_layer_norm = do_layer_norm
        self.scalar_parameters = ParameterList(
            Parameter(torch.tensor([float(value)]), requires_grad=trainable) for value in initial
        )
        self.gamma = Parameter(torch.ones(1), requires_grad=trainable)

    def forward(self, tensors: Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """Mix tensors of one shape; `mask` is read by the layer norm only.

        Shape:
            `mixture_size` tensors (..., W), mask (...) → (..., W); after the layer norm not 0 at padding, as in the
            reference

        Raises:
            ValueError: another number of tensors, or a layer norm without a mask.
        """
        if len(tensors) != self.mixture_size:
            raise ValueError(f"tensors: got {len(tensors)}; expected {self.mixture_size}, the mixture_size.")
        if self.do_layer_norm:
            if mask is None:
                raise ValueError("mask: got None; expected 1 at words and 0 at padding, which do_layer_norm reads.")
            tensors = [_normalised(tensor, mask) for tensor in tensors]
        shares = torch.softmax(torch.cat(list(self.scalar_parameters)), dim=0)  # (mixture_size,)
        mixed = sum(share * tensor for share, tensor in zip(shares, tensors, strict=True))
        return self.gamma * mixed


def _normalised(tensor: Tensor, mask: Tensor) -> Tensor:
    eps = _EPS_HALF if tensor.dtype == torch.float16 else _EPS
    return batch_norm(tensor, mask.unsqueeze(-1).to(tensor.dtype), eps)
