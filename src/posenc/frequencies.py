"""Schedules of angular frequencies: pure functions from a count to radians a unit of position, in float64.

They are computed from numbers every time they are needed and never kept in a buffer, so no ``.to(bfloat16)`` can
round them (a rounded frequency is off by whole turns at the end of a long text).
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float64
from torch import Tensor


def geometric(count: int, *, base: float = 10000.0, device: torch.device | None = None) -> Float64[Tensor, " n"]:
    """``omega_i = base^(-i / count)``, i = 0 .. count - 1: from 1 rad a unit down to almost 1 / base.

    With ``count = d / 2`` this is ``base^(-2i / d)`` of Vaswani et al. 2017 (arXiv 1706.03762, section 3.5) and of
    RoPE (arXiv 2104.09864, eq. 15).
    """
    if not 0 < base < math.inf:
        raise ValueError(f"the base of a geometric schedule is positive; got {base:g}. The papers use 10000.")
    exponent = torch.arange(count, dtype=torch.float64, device=device) / max(count, 1)
    return torch.as_tensor(float(base), dtype=torch.float64, device=device) ** -exponent
