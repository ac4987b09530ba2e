"""Precision of matrix products in training steps. Weights and optimizer states keep their own precision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal, get_args

import torch

Precision = Literal["float32", "tf32", "bfloat16"]


class Arithmetic:
    """Precision of matrix products inside its context managers. Evaluations outside them are not affected.

    Args:
        precision: "float32" changes nothing; "tf32" rounds the factors of float32 products on CUDA to 10 bits of
            mantissa; "bfloat16" is autocast.
        device: device of the model.

    Raises:
        ValueError: an unknown precision, or one that the device does not support.
    """

    def __init__(self, precision: Precision, device: torch.device | str) -> None:
        self.precision, self.device = precision, torch.device(device)
        if precision not in get_args(Precision):
            raise ValueError(f"steps are computed in {', '.join(get_args(Precision))}; got precision={precision!r}.")
        if precision == "tf32" and self.device.type != "cuda":
            raise ValueError(
                f"tf32 is a precision of CUDA devices; this model is on {self.device}. "
                "Use precision='float32' there, or 'bfloat16'."
            )

    def products(self) -> AbstractContextManager[None]:
        """Return the context manager for forward and backward."""
        return _tensor_cores() if self.precision == "tf32" else nullcontext()

    def forward(self) -> AbstractContextManager[object]:
        """Return the context manager for the forward pass; the backward pass repeats the casts of its forward pass."""
        if self.precision != "bfloat16":
            return nullcontext()
        # without the cache of cast weights, because it would persist after a recorded CUDA graph
        return torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False)


@contextmanager
def _tensor_cores() -> Iterator[None]:
    matmul = torch.backends.cuda.matmul
    name, on = ("fp32_precision", "tf32") if hasattr(matmul, "fp32_precision") else ("allow_tf32", True)
    before = getattr(matmul, name)
    setattr(matmul, name, on)
    try:
        yield
    finally:
        setattr(matmul, name, before)
