"""What the products of a training step are computed in; the weights and the optimiser keep their own precision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal, get_args

import torch

Precision = Literal["float32", "tf32", "bfloat16"]


class Arithmetic:
    """``float32`` changes nothing; ``tf32`` rounds the factors of CUDA's float32 products to 10 bits; ``bfloat16`` is
    autocast. Only what runs inside its contexts is touched, so measurements stay in the model's own precision.

    Raises ValueError for a precision that nobody has, or that the device lacks.
    """

    def __init__(self, precision: Precision, device: torch.device | str) -> None:
        self.precision, self.device = precision, torch.device(device)
        if precision not in get_args(Precision):
            raise ValueError(f"steps are computed in {', '.join(get_args(Precision))}; got precision={precision!r}.")
        if precision == "tf32" and self.device.type != "cuda":
            raise ValueError(
                f"tf32 is a way of CUDA devices to multiply; this model is on {self.device}. "
                "Use precision='float32' there, or 'bfloat16'."
            )

    def products(self) -> AbstractContextManager[None]:
        """Around forward and backward."""
        return _tensor_cores() if self.precision == "tf32" else nullcontext()

    def forward(self) -> AbstractContextManager[object]:
        """Around the forward alone; a backward repeats the casts of its forward."""
        if self.precision != "bfloat16":
            return nullcontext()
        # without the cache of cast weights, which outlives a recorded step
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
