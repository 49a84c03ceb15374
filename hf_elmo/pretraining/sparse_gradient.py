"""Training with gradients that hold only the rows a sampled softmax has read.

A step reads some thousand of the softmax's rows.  With hundreds of thousands of words a dense gradient, and an
optimiser that goes through all of its rows, would take most of the step.  Adagrad leaves rows without a gradient as
they are, so that the sparse update is the dense one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from transformers import TrainingArguments

from hf_elmo.modeling_elmo import ElmoForPreTraining

# In which a row without a gradient keeps its value and its state.
_OPTIMISERS = ("adagrad", "sgd")


def begin_sparse_gradients(model: ElmoForPreTraining, args: TrainingArguments) -> list[nn.Parameter]:
    """Let a sampled softmax give sparse gradients, and return its parameters; of another softmax there are none.

    `DistributedDataParallel` has no sparse gradients over NCCL, so that it is told to pass these parameters by;
    `average_over_processes` averages theirs.

    Raises:
        ValueError: an optimiser that needs the gradient of every row, or a model that is sharded.
    """
    if not model.lm_head.sampled:
        return []
    optimiser = str(getattr(args.optim, "value", args.optim))
    if optimiser not in _OPTIMISERS or args.weight_decay:
        raise ValueError(
            f"sparse_softmax_gradient: got optim {optimiser!r} with weight_decay {args.weight_decay:g}; expected "
            f"{' or '.join(map(repr, _OPTIMISERS))} without weight_decay, since others change every row at every "
            "update.  Set sparse_softmax_gradient to false."
        )
    if args.fsdp or args.deepspeed:
        raise ValueError(
            "sparse_softmax_gradient: got true together with FSDP or DeepSpeed, which divide parameters among "
            "processes; expected false."
        )
    checks = torch.sparse.check_sparse_tensor_invariants
    if not checks.is_enabled():
        checks.disable()  # said aloud, since torch warns where it is only the default
    model.lm_head.sparse_gradient = True
    names = [f"lm_head.{name}" for name, _ in model.lm_head.named_parameters()]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, names)
    return list(model.lm_head.parameters())


def start_alike(parameters: Sequence[nn.Parameter]) -> None:
    """Give every process the values of the first, as `DistributedDataParallel` does with what it does not pass by."""
    for parameter in parameters:
        broadcast(parameter.data)


def average_over_processes(parameters: Sequence[nn.Parameter], accelerator: Accelerator) -> None:
    """Replace each sparse gradient by its mean over the processes, every row once."""
    for parameter in parameters:
        assert parameter.grad is not None
        gradient = parameter.grad.coalesce()
        rows, values = gradient.indices().squeeze(0), gradient.values()  # (n,), (n, ...)
        if accelerator.num_processes > 1:
            # Padding is row 0 with a gradient of 0, which adds nothing.
            rows, values = (
                accelerator.gather(accelerator.pad_across_processes(tensor, dim=0)) for tensor in (rows, values)
            )
            values = values / accelerator.num_processes
        parameter.grad = torch.sparse_coo_tensor(rows.unsqueeze(0), values, parameter.shape).coalesce()


def clip_gradients(model: nn.Module, max_norm: float, accelerator: Accelerator) -> Tensor:
    """Clip the norm of all gradients together, dense and sparse; returns the norm before that.

    `torch.nn.utils.clip_grad_norm_` takes no sparse gradient; here it sees their values, which it scales in place.
    """
    seen = []
    for parameter in model.parameters():
        if parameter.grad is None or not parameter.grad.is_sparse:
            seen.append(parameter)
            continue
        values = parameter.grad.values()
        stand_in = nn.Parameter(values, requires_grad=False)
        stand_in.grad = values
        seen.append(stand_in)
    return accelerator.clip_grad_norm_(seen, max_norm)
