"""Plane waves in the directions of a regular simplex, the shared kernel of the grid-cell encodings (GridPE).

    u_i . u_j = -1/P for i != j,  sum_i u_i u_i^T = ((P+1)/P) I      n = P + 1 waves per scale (one for P = 1)
    lambda_{s+1} / lambda_s = r = e^(1/P),  |omega_s| = 2 pi / lambda_s
    g_k(x) = sum_i c_i exp(j omega_{i,k} . x)

Source: Li et al. 2024, arXiv 2406.07049, eqs. 5, 11 and 17. On two axes the waves are 120 degrees apart. Waves are
computed on the CPU in float64 and stored as plain tensors instead of buffers, so that a cast of a module never rounds a
wave.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

import posenc.frequencies as schedules  # `from posenc import frequencies` would import every scheme
from posenc.kernels import rotary
from posenc.kernels.rotary import Rotation
from posenc.kernels.wave_vectors import GivenFrequencies, frequency_tensor, given_frequencies
from posenc.positions import Positions

CPU = torch.device("cpu")
RELEASED = ((-0.8385, 0.5839), (-0.1927, 0.1998), (-1.0356, 0.8981))
"""Coefficients c_i of the released code: column sums of its fixed random unitary matrix, real and imaginary part."""

RELEASED_BASE = 200.0
"""Base of the frequencies in the released code."""

DRAWS = ("released.drawn",)
"""Name of the buffer that counts the draws of the released code (see ``Scheme.draws``)."""

NO_GRAPH = {"compiling.it_compiles_whole_at_changing_lengths": "it draws from a generator, which no graph holds"}
"""Contract check that the released code fails because of its draws (see ``Scheme.faults``)."""

Coefficients = Sequence[Sequence[float]]
"""Real and imaginary part of the coefficient ``c_i`` of each wave."""


class Phases(NamedTuple):
    """Complex features of positions, as real and imaginary part.

    Attributes:
        cos: real part ``(.., h, N, R)`` for h heads and R features.
        sin: imaginary part, of the same shape.
    """

    cos: Tensor
    sin: Tensor


class Sides(NamedTuple):
    """Complex features of queries and of keys. They differ only in the released code, which draws each separately."""

    q: Phases
    k: Phases


# waves -----------------------------------------------------------------------------------------------------------


def directions(axes: int) -> Tensor:
    """Return the unit vectors ``u_i (n, P)`` from the center of a regular simplex to its corners; +1 for P = 1."""
    corners = torch.ones(1, 1, dtype=torch.float64, device=CPU)
    if axes == 1:
        return corners
    corners = torch.cat([corners, -corners])
    for p in range(2, axes + 1):
        below = torch.cat([torch.full((p, 1), -1 / p, dtype=torch.float64, device=CPU),
                           corners * math.sqrt(1 - 1 / p**2)], 1)  # fmt: skip
        top = torch.zeros(1, p, dtype=torch.float64, device=CPU)
        top[0, 0] = 1
        corners = torch.cat([top, below])
    return corners


def orientations(count: int, axes: int, generator: torch.Generator) -> Tensor:
    """Draw uniformly random rotations ``(count, P, P)`` of determinant 1; for P = 1 they are 1."""
    q, r = torch.linalg.qr(torch.randn(count, axes, axes, generator=generator, dtype=torch.float64, device=CPU))
    q = q * torch.diagonal(r, dim1=-2, dim2=-1).sign()[:, None, :]
    last = torch.ones(count, 1, axes, dtype=torch.float64, device=CPU)
    last[:, 0, -1] = torch.linalg.det(q)
    return q * last.round()


def wave_vectors(count: int, axes: int, frequencies: Tensor, seed: int) -> Tensor:
    """Return wave vectors ``omega_{i,k} = |omega_{k mod S}| Q_k u_i``, ``(count, n, P)``, with random rotations Q_k."""
    turned = directions(axes) @ orientations(count, axes, torch.Generator().manual_seed(seed)).mT
    return turned * cycled(frequencies, count)[:, None, None]


def cycled(frequencies: Tensor, count: int) -> Tensor:
    """Return ``count`` frequencies, repeated cyclically if there are fewer."""
    return frequencies[torch.arange(count, device=CPU) % len(frequencies)]


def wave_frequencies(
    name: str, axes: int, extent: float, frequencies: GivenFrequencies | None, literal: object
) -> Tensor:
    """Return the frequencies ``|omega_s|`` of a GridPE variant.

    They are the given ones, or economical scales from a wavelength of 4 units up to ``extent``. Raises ValueError for
    invalid arguments.
    """
    if axes < 1:
        raise ValueError(f"{name} needs at least one axis; got axes={axes}. Use axes=2 for an image.")
    if literal not in (False, True, "frozen"):
        raise ValueError(f"{name} is literal=False, True or 'frozen'; got {literal!r}.")
    if literal and axes != 2:
        raise ValueError(f"the released code of {name} knows two axes; got axes={axes}. Leave `literal` out.")
    if frequencies is None:
        return schedules.economy(axes=axes, extent=extent, device=CPU)
    lengths = frequency_tensor(frequencies).to(CPU)
    if lengths.dim() != 1 or not len(lengths) or not bool(lengths.isfinite().all()):
        raise ValueError(
            f"{name}'s frequencies are the finite lengths |omega_s| of its waves, in radians per unit of position; got "
            f"{given_frequencies(frequencies)}. Pass numbers such as [1.5, 0.9, 0.5], or a tensor (S,), as "
            "frequencies.economy(ratio=2.0)."
        )
    return lengths


def coefficients(name: str, axes: int, given: Coefficients | None, literal: object) -> tuple[tuple[float, float], ...]:
    """Return the coefficients ``c_i`` of the n waves: given ones, those of the released code, or ``1 / sqrt(n)``."""
    n = len(directions(axes))
    if given is None:
        return RELEASED if literal else ((n**-0.5, 0.0),) * n
    if literal:
        raise ValueError(f"{name}'s literal form has the coefficients of the released code. Leave `coefficients` out.")
    try:
        pairs = tuple((float(real), float(imaginary)) for real, imaginary in given)
    except (TypeError, ValueError):
        pairs = ()
    if len(pairs) != n or not all(0 < math.hypot(*c) < math.inf for c in pairs):
        raise ValueError(
            f"{name} with axes={axes} sums {n} waves, and `coefficients` are as many finite pairs (real, imaginary), "
            f"none of them 0; got {given!r}. As simplex.unitary_sums({axes}), or leave them out."
        )
    return pairs


def unitary_sums(axes: int, seed: int = 0) -> tuple[tuple[float, float], ...]:
    """Return coefficients ``c_i = sum_l Q_li`` of a random unitary matrix Q (n x n), with ``sum_i |c_i|^2 = n``.

    The released code did this once for three waves; its result is ``RELEASED``.
    """
    n, generator = len(directions(axes)), torch.Generator().manual_seed(seed)
    q, r = torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.complex128, device=CPU))
    return tuple((float(c.real), float(c.imag)) for c in (q * r.diagonal().sgn()).sum(0))


class Released(nn.Module):
    """Wave vectors of the released code: lengths ``|omega_k| = 200^(k/d)`` and random angles at every call.

    Queries and keys (the sides) get separate draws. The number of draws is a buffer, so that a loaded model continues
    with the next draw.

    Args:
        count: number of layers k.
        width: d.
        sides: number of separate draws per call.
        seed: seed of the draws.
        frozen: whether every call returns the first draw.
    """

    drawn: Tensor

    def __init__(self, count: int, width: int, sides: int, seed: int, *, frozen: bool) -> None:
        super().__init__()
        self.count, self.width, self.sides, self.seed = count, width, sides, seed
        self.once = self._waves(self.generator(0)) if frozen else None
        if not frozen:
            self.register_buffer("drawn", torch.zeros((), dtype=torch.int64))

    def generator(self, number: int) -> torch.Generator:
        """Return the generator of the draw with this number."""
        return torch.Generator().manual_seed(self.seed * 1_000_003 + number)

    def next_generator(self) -> torch.Generator:
        """Return the generator of the present draw, and increase the counter."""
        number = int(self.drawn)
        self.drawn.add_(1)
        return self.generator(number)

    def now(self) -> Tensor:
        """Return the wave vectors that the next call will return, without increasing the counter."""
        return self() if self.once is not None else self(self.generator(int(self.drawn)))

    def forward(self, generator: torch.Generator | None = None) -> Tensor:
        """Return wave vectors ``(sides, count, 3, 2)``."""
        if self.once is not None:
            return self.once
        return self._waves(self.next_generator() if generator is None else generator)

    def reset_parameters(self) -> None:
        """Set the counter of draws to 0."""
        if self.once is None:
            self.drawn.zero_()

    def _waves(self, generator: torch.Generator) -> Tensor:
        draw = torch.rand(self.sides, self.count, generator=generator, dtype=torch.float64, device=CPU)
        thirds = torch.arange(3, dtype=torch.float64, device=CPU) / 3
        angle = 2 * math.pi * (draw[..., None] + thirds)
        size = RELEASED_BASE ** (torch.arange(self.count, dtype=torch.float64, device=CPU) / self.width)
        return torch.stack([angle.cos(), angle.sin()], -1) * size[:, None, None]


# phases ----------------------------------------------------------------------------------------------------------


def angles(pos: Positions, waves: Tensor) -> Tensor:
    """Compute ``omega . x`` in float64, ``(.., h, N, R)`` for waves ``(h, R, P)``; 0 for tokens without a position."""
    angle = pos.precise()[..., None, :, :] @ waves.to(pos.coords.device).mT
    return angle if pos.placed is None else angle * pos.placed[..., None, :, None]


def turns(pos: Positions, waves: Tensor) -> Rotation:
    """Prepare rotations of channel pairs (2r, 2r + 1) by the phases of waves ``(h, R, P)``."""
    return rotary.prepare_rotation(angles(pos, waves), pos, "interleaved")


def phases(pos: Positions, waves: Tensor, coefficients: Coefficients) -> Phases:
    """Compute ``c_i exp(j omega_{i,k} . x)`` of every wave of ``(h, R, n, P)``, ``(.., h, N, R n)``.

    Tokens without a position get ``1 / sqrt(n)``.
    """
    real, imaginary = (torch.stack(part, -1).flatten(-2) for part in _terms(pos, waves, coefficients))
    return _neutral(real, imaginary, pos, len(coefficients) ** -0.5)


def sums(pos: Positions, waves: Tensor, coefficients: Coefficients) -> Phases:
    """Compute ``g_k(x) = sum_i c_i exp(j omega_{i,k} . x)`` of waves ``(h, R, n, P)``.

    Tokens without a position get 1.
    """
    real, imaginary = (sum(part[1:], start=part[0]) for part in _terms(pos, waves, coefficients))
    return _neutral(real, imaginary, pos, 1.0)


def _terms(pos: Positions, waves: Tensor, coefficients: Coefficients) -> tuple[list[Tensor], list[Tensor]]:
    """Return real and imaginary parts of ``c_i exp(j omega_i . x)``, n tensors ``(.., h, N, R)`` each, in float64."""
    angle = angles(pos, waves.flatten(-3, -2)).unflatten(-1, (-1, len(coefficients)))
    each = list(zip(coefficients, angle.cos().unbind(-1), angle.sin().unbind(-1), strict=True))
    return [a * cos - b * sin for (a, b), cos, sin in each], [a * sin + b * cos for (a, b), cos, sin in each]


def _neutral(real: Tensor, imaginary: Tensor, pos: Positions, one: float) -> Phases:
    if pos.placed is not None:
        placed = pos.placed[..., None, :, None]
        real, imaginary = torch.where(placed, real, one), imaginary * placed
    return Phases(real.to(pos.table_dtype), imaginary.to(pos.table_dtype))


def sides(g: Phases) -> Sides:
    """Split two draws, which are stored along the axis of heads, into the features of queries and keys."""
    q, k = (Phases(*(part.narrow(-3, side, 1) for part in g)) for side in (0, 1))
    return Sides(q, k)
