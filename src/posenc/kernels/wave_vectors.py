"""Wave vectors of Fourier features: initial directions in cycles per unit of position, amplitudes and angles.

Source: Tancik et al. 2020, arXiv 2006.10739, sections 5 and 6, and its code, github tancik/fourier-feature-networks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor

Directions = Literal["gaussian", "basic", "positional", "released"]
GivenFrequencies = Tensor | Sequence[float]
"""Angular frequencies in radians per unit of position: a tensor, or numbers."""


class Waves(NamedTuple):
    """Prepared Fourier features.

    Attributes:
        rows: L sines and L cosines per position, ``(.., N, 2L)``.
        weights: factors of the directions ``(.., L)``, broadcast to ``(.., N, L)``; None for 1.
    """

    rows: Float[Tensor, "*B N 2L"]
    weights: Tensor | None = None


def draw(
    B: Float[Tensor, "L P"], directions: Directions, sigma: float, generator: torch.Generator | None = None
) -> None:
    """Write initial directions ``b_m`` into ``B (L, P)``, in place.

    - gaussian: ``b_m ~ N(0, sigma^2 I)``.
    - basic: ``b_p = sigma e_p``, with L = P; sigma is 1 in the paper.
    - positional: ``sigma^(j/J) e_p`` with ``j = 0 .. J - 1`` and ``J = L / P``, axis after axis; sigma = 2^J gives the
      lengths 1, 2, 4, ..
    - released: ``(sigma^(j/(J-1)) - 1) e_p``, which the authors' code uses for "positional", with sigma = 2^6 for
      photographs.
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
    """Return amplitudes ``a_m = 1 / m^p`` for m = 1 .. count (arXiv 2006.10739, section 5).

    With p = 0 all amplitudes are 1. With p = infinity only the first is not 0.
    """
    if count < 1 or not p >= 0:
        raise ValueError(
            f"amplitudes fall as 1 / m^p for m = 1 .. count, count >= 1 and p >= 0; got {count} and {p:g}."
        )
    return tuple(float(m) ** -p for m in range(1, count + 1))


def angles(turns: Float64[Tensor, "*B N L"], dtype: torch.dtype) -> Float[Tensor, "*B N L"]:
    """Return ``2 pi turns`` modulo whole turns, reduced to [-pi, pi] in float64 so that any dtype keeps the phase."""
    return (2 * math.pi * (turns - turns.detach().round())).to(dtype)


def refuse_misfit(dim: int, axes: int, directions: Directions, sigma: float) -> None:
    """Raise ValueError where ``dim`` or ``sigma`` does not suit the kind of directions."""
    if directions == "basic" and dim != 2 * axes:
        raise ValueError(f"the basic mapping has one direction per axis, so `dim` is 2 axes = {2 * axes}; got {dim}.")
    if directions in ("positional", "released") and dim % (2 * axes):
        raise ValueError(
            f"the {directions} mapping gives each of {axes} axes as many frequencies, so `dim` is a multiple of "
            f"{2 * axes}; got {dim}. Use {max(dim // (2 * axes), 1) * 2 * axes}."
        )
    equal = sigma == 1 if dim > 2 * axes else directions == "released"  # the first frequency of "released" is 0
    if directions in ("positional", "released") and equal:
        raise ValueError(
            f"with sigma={sigma:g} and dim={dim} all frequencies of the {directions} mapping are one. Use sigma=2**J "
            "for J of them, or the highest that the data has, and dim = 2 J axes with J >= 2."
        )


def frequency_tensor(given: GivenFrequencies) -> Tensor:
    """Frequencies of a tensor, an array or a list as float64; without an entry if they are no numbers."""
    if isinstance(given, Tensor):
        return given.detach().double()
    try:
        return torch.tensor(given, dtype=torch.float64, device="cpu")
    except (TypeError, ValueError, RuntimeError):
        return torch.empty(0, dtype=torch.float64, device="cpu")


def given_frequencies(given: object) -> str:
    """Describe frequencies that do not fit, for an error: "4 of shape (2, 2)", or the value if they are no numbers."""
    shape = getattr(given, "shape", None)
    return repr(given) if shape is None else f"{math.prod(shape)} of shape {tuple(shape)}"


def frequency_numbers(given: GivenFrequencies, count: int, name: str) -> tuple[float, ...]:
    """Frequencies as Python floats, because ``.to(bfloat16)`` would round a buffer.

    Args:
        given: Angular frequencies ``(count,)`` in radians per unit of position, as numbers or a tensor.
        count: Number of frequencies that the scheme needs.
        name: Name of the scheme, for the error.

    Returns:
        The frequencies.

    Raises:
        ValueError: If there is another number of them, or one is not finite.
    """
    numbers = tuple(frequency_tensor(given).flatten().tolist())
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise ValueError(
            f"{name} needs {count} finite frequencies, in radians per unit of position; got "
            f"{given_frequencies(given)}. Pass numbers, or join tensors by torch.cat, as of "
            "periods('day', 'year', unit='day') and from_span(8, shortest=2, longest=900)."
        )
    return numbers
