"""Memory of the tensors that autograd keeps from a forward pass until its backward pass."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def activation_bytes(model: nn.Module, inputs: Callable[[int], Tensor], batch: int) -> float:
    """Estimate the memory of the activations of a batch, from forward passes of one and of two samples.

    Args:
        model: The model, on the CPU.
        inputs: Maps a number of samples to an input of the model.
        batch: Samples of a batch.

    Returns:
        Bytes. Tensors that all samples share, such as a bias of the attention, are counted once.
    """
    one, two = (_kept_bytes(model, inputs(count)) for count in (1, 2))
    return one + (batch - 1) * (two - one)


def _kept_bytes(model: nn.Module, x: Tensor) -> int:
    own = {part.untyped_storage().data_ptr() for part in (*model.parameters(), *model.buffers())}
    kept = dict[int, int]()

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # the memory stays, so no address is used twice; the tensor itself would form a cycle

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = model(x)
        total = sum(kept.values())
    del output
    return total
