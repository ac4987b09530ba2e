"""Choice between the torch form of a kernel, which defines it, and its Triton form, which a CUDA device runs.

The Triton form is taken by default for tensors on a CUDA device of compute capability 8.0 or more, if ``triton`` is
installed. It has the values and gradients of the torch form up to rounding. Everywhere else the torch form is taken:
on a CPU, while compiling (torch.compile makes its own kernels of the torch form), under ``torch.func``, and for
forward-mode differentiation. ``kernel_form("torch")`` turns the Triton forms off.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Literal, get_args

import torch
from torch import Tensor
from torch._C._functorch import is_legacy_batchedtensor

from posenc.kernels.linear import eager

KernelForm = Literal["automatic", "torch", "triton"]

INSTALLED = importlib.util.find_spec("triton") is not None
"""True if Triton is installed. It comes with torch's builds for CUDA on Linux."""

CAPABILITY = (8, 0)
"""Least compute capability of a CUDA device that runs the Triton forms: tests compile the kernels for it."""

_FORM: ContextVar[KernelForm] = ContextVar("kernel form", default="automatic")


@contextlib.contextmanager
def kernel_form(form: KernelForm) -> Iterator[None]:
    """Choose the form of the kernels for a block of code, in this thread.

    A backward pass keeps the form of its forward pass.

    Args:
        form: "torch" turns the Triton forms off; "automatic" is the default; "triton" takes them on every device, which
            on a CPU needs Triton's interpreter (``TRITON_INTERPRET=1``, for tests).

    Yields:
        Nothing.

    Raises:
        ValueError: an unknown form, or "triton" where Triton is not installed.

    Example:
        >>> from posenc.kernels.kernel_form import kernel_form
        >>> with kernel_form("torch"):
        ...     pass  # a forward and backward pass without Triton
    """
    if form not in get_args(KernelForm):
        raise ValueError(f"the form of kernels is {', '.join(map(repr, get_args(KernelForm)))}; got {form!r}.")
    if form == "triton" and not INSTALLED:
        raise ValueError(
            "kernel_form('triton') needs the package triton, which is not installed here. Install it with pip install "
            "triton, or use kernel_form('automatic')."
        )
    token = _FORM.set(form)
    try:
        yield
    finally:
        _FORM.reset(token)


def takes_triton(*tensors: Tensor) -> bool:
    """Return True if these tensors should be computed by the Triton form of a kernel."""
    if not INSTALLED or not eager() or _FORM.get() == "torch":
        return False
    first = tensors[0].device
    ordinary = all(type(t) in (Tensor, torch.nn.Parameter) and not is_legacy_batchedtensor(t) for t in tensors)
    if not ordinary or any(t.device != first or t.numel() == 0 for t in tensors):
        return False
    return _FORM.get() == "triton" or (
        first.type == "cuda" and torch.version.hip is None and torch.cuda.get_device_capability(first) >= CAPABILITY
    )
