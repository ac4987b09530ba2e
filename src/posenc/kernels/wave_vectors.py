"""Waves along directions: first directions, in cycles a unit of position, amplitudes, and angles that keep their phase.

Source: Tancik et al. 2020, arXiv 2006.10739, sections 5 and 6, and its code, github tancik/fourier-feature-networks.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor

Directions = Literal["gaussian", "basic", "positional", "released"]


class Waves(NamedTuple):
    """Finished rows of L sines and cosines; ``weights`` multiply the directions, ``(.., L)`` broadcast against
    ``(.., N, L)``."""

    rows: Float[Tensor, "*B N 2L"]
    weights: Tensor | None = None


def draw(
    B: Float[Tensor, "L P"], directions: Directions, sigma: float, generator: torch.Generator | None = None
) -> None:
    """Writes the directions ``b_m`` into ``B``.

    gaussian: ``b_m ~ N(0, sigma^2 I)``. basic: ``b_p = sigma e_p`` (L = P; the paper's sigma is 1). positional:
    ``sigma^(j/J) e_p`` with ``j = 0 .. J - 1``, ``J = L / P``, axis after axis; sigma = 2^J makes them 1, 2, 4, ..
    released: what the authors' code takes for that, ``(sigma^(j/(J-1)) - 1) e_p``, sigma = 2^6 for photographs.
    """
    if directions == "gaussian":
        B.normal_(0, sigma, generator=generator)
        return
    axes = B.shape[1]
    each = len(B) // axes
    released = int(directions == "released")
    steps = torch.arange(each, dtype=torch.float64) / max(each - released, 1)
    sizes = torch.as_tensor(sigma, dtype=torch.float64) ** (1 if directions == "basic" else steps) - released
    along = torch.eye(axes, dtype=torch.float64)[:, None] * sizes.expand(each)[:, None]
    B.copy_(along.flatten(0, 1))


def power_law(count: int, p: float) -> tuple[float, ...]:
    """``a_m = 1 / m^p``, m = 1 .. count: the smoother prior of arXiv 2006.10739, section 5; p = 0 makes all of them 1,
    and infinity leaves the first alone."""
    if count < 1 or not p >= 0:
        raise ValueError(
            f"amplitudes fall as 1 / m^p for m = 1 .. count, count >= 1 and p >= 0; got {count} and {p:g}."
        )
    return tuple(float(m) ** -p for m in range(1, count + 1))


def angles(turns: Float64[Tensor, "*B N L"], dtype: torch.dtype) -> Float[Tensor, "*B N L"]:
    """``2 pi turns`` without whole turns, which are dropped in float64: within pi of 0 any dtype keeps the phase."""
    return (2 * math.pi * (turns - turns.detach().round())).to(dtype)
