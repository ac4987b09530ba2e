"""Launch of a Triton kernel on the device of its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def launch(
    kernel: Any, programs: tuple[int, ...], given: tuple[Any, ...], sizes: Mapping[str, Any], on: Tensor
) -> None:
    """Run a kernel's programs on the device of a tensor.

    Products are not fused with sums, so that results have the bits of the torch form's arithmetic.

    Args:
        kernel: function decorated with ``triton.jit``.
        programs: number of programs on each axis.
        given: arguments of the kernel.
        sizes: compile-time arguments.
        on: tensor on the device; Triton itself would take the current device of the process.
    """
    with torch.cuda.device_of(on):
        kernel[programs](*given, **sizes, enable_fp_fusion=False)
