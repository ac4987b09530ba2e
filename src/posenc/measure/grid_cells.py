"""What the theory of grid cells says of encodings: firing maps, the economy of scales, and inner products over a plane.

    phi(t) - phi(0) = w_s t + beta k . x(t)                             (eqs. 1, 2)
    g(x) = sum_i c_i cos(k_i . x)                                       (eqs. 3, 4; 3 at 120 degrees: hexagonal)
    <g(x), g(y)> = sum_i |c_i|^2 exp(j k_i . d),  d = x - y             (eqs. 6 to 8)
    N = d rho log_rho R,  least at rho = r^p = e                        (eqs. 9 to 11)

Li et al. 2024, arXiv 2406.07049, version 2, after Wei et al. 2015 (the economy of grid modules). Pure functions
in float64.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from posenc.kernels import simplex
from posenc.positions import Positions
from posenc.scheme import Scheme

MAPS: tuple[Literal["k", "q", "v", "o"], ...] = ("k", "q", "v", "o")
"""Where a scheme may map vectors, in the order in which ``firing_maps`` looks for one."""


def oscillator_phases(
    path: Tensor, times: Tensor, waves: Tensor, *, base: float = 2 * math.pi * 8, beta: float = 1.0
) -> Tensor:
    """Phases ``(T, n)`` of velocity-controlled oscillators, by adding up ``d phi = (w_s + beta v . k) dt`` (eq. 1).

    path: where the animal is, ``(T, P)``. times: ``(T,)``. waves: ``k (n, P)``. base: w_s in rad a second, 8 Hz of
    theta by default. Eq. 2 says that only the way covered counts: ``w_s t + beta k . (x(t) - x(0))``.
    """
    steps = times.double().diff()
    if path.dim() != 2 or len(path) != len(times) or bool((steps <= 0).any()):
        raise ValueError(
            f"a path is one place (T, P) for each of T increasing times; got {tuple(path.shape)} and "
            f"{tuple(times.shape)}."
        )
    _same_axes("the path has", path, waves)
    speed = path.double().diff(dim=0) / steps[:, None]
    turned = (base + beta * speed @ waves.double().mT) * steps[:, None]
    return torch.cat([turned.new_zeros(1, len(waves)), turned.cumsum(0)])


def firing(points: Tensor, waves: Tensor, coefficients: Tensor | None = None) -> Tensor:
    """``g(x) = sum_i c_i cos(k_i . x)`` at points ``(.., P)`` for waves ``(n, P)``; c_i = 1 by default (eqs. 3, 4)."""
    _same_axes("the points have", points, waves)
    cos = (points.double() @ waves.double().mT).cos()
    return cos.sum(-1) if coefficients is None else cos @ coefficients.double()


def firing_map(
    size: float, count: int, *, wavelength: float, orientation: float = 0.0, phase: Sequence[float] = (0.0, 0.0)
) -> Tensor:
    """A grid cell's activation ``(count, count)`` on a square of side ``size`` centred at 0, rows down the first axis.

    Three waves of one wavelength, 120 degrees apart: maxima of height 3 on a hexagonal lattice, neighbours ``2 /
    sqrt(3)`` wavelengths apart; minima of -3/2. orientation: of the first wave, in radians. phase: where a
    maximum lies.
    """
    if not (0 < wavelength < math.inf and 0 < size < math.inf and count >= 1):
        raise ValueError(
            f"a firing map needs a wavelength and size above 0 and count >= 1; got wavelength={wavelength:g}, "
            f"size={size:g}, count={count}."
        )
    cos, sin = math.cos(orientation), math.sin(orientation)
    turned = simplex.directions(2) @ torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float64)
    line = torch.linspace(-size / 2, size / 2, count, dtype=torch.float64)
    points = torch.stack(torch.meshgrid(line, line, indexing="ij"), -1) - torch.tensor(phase, dtype=torch.float64)
    return firing(points, 2 * math.pi / wavelength * turned)


def firing_maps(scheme: Scheme, pos: Positions, *, head_dim: int = 64, heads: int | None = None) -> Tensor:
    """The channels of any scheme over places, ``(N, C)``: embedded rows, or a vector of ones as the scheme maps it.

    The vector is a key's where keys are mapped, else a query's, a value's or an output's; of heads that differ it is
    the first's. heads: how many it is built for, where it does not keep that as ``heads``. Raises ValueError for a
    scheme that neither embeds nor maps vectors, as one that adds to logits: ``decay.logit_on_plane`` shows that.
    """
    with torch.no_grad():
        where = scheme.prepare(pos)
        if "embed" in scheme.claims.sites:
            return scheme.embed(where).reshape(-1, scheme.out_dim).double()
        for site in MAPS:
            if site in scheme.claims.sites:
                shape = (1, heads or getattr(scheme, "heads", 1), pos.count, scheme.head_width or head_dim)
                ones = torch.ones(shape, dtype=torch.float64)
                return scheme.transform(ones, where, site)[0, 0]
    raise ValueError(f"{type(scheme).__name__} has no map of a place: it acts at {sorted(scheme.claims.sites)}.")


class Fields(NamedTuple):
    """Two neighbouring modules; ``inside``: how many fields of the finer one lie within one field of the coarser."""

    period: float
    field: float
    finer_period: float
    inside: int
    ambiguous: bool


def fields_against_periods(periods: Sequence[float], fields: Sequence[float]) -> list[Fields]:
    """Whether a firing field of each module tells the finer module's fields apart, ``l_i <= lambda_{i-1}`` (Fig. 2).

    periods: ``lambda_i``, ascending, and fields: the diameters ``l_i``. Counts centres of the finer module in an open
    interval of length l_i, where most fit.
    """
    if len(periods) != len(fields) or any(b <= a for a, b in itertools.pairwise(periods)):
        raise ValueError(f"one field a period, periods ascending; got periods {periods} and fields {fields}.")
    if not all(length > 0 for length in (*periods, *fields)):
        raise ValueError(f"periods and fields are lengths above 0; got periods {periods} and fields {fields}.")
    table = []
    for i in range(1, len(periods)):
        inside = max(1, math.ceil(fields[i] / periods[i - 1] - 1e-12))
        table.append(Fields(periods[i], fields[i], periods[i - 1], inside, inside > 1))
    return table


def cells(rho: float, resolution: float, *, depth: float = 1.0) -> float:
    """``N(rho) = d rho log_rho R``: cells that cover a resolution R with every place seen by d of them (eq. 11)."""
    if rho <= 1 or resolution <= 1:
        raise ValueError(f"rho and the resolution are greater than 1; got rho={rho:g}, resolution={resolution:g}.")
    return depth * rho * math.log(resolution) / math.log(rho)


class Economy(NamedTuple):
    """What P axes need: rho where cells are fewest, ``r = rho^(1/P)``, and the least width for a base."""

    axes: int
    rho: float
    ratio: float
    width: float


def economy(axes: Sequence[int] = (1, 2, 3), *, base: float = 10000.0) -> list[Economy]:
    """The ratio of scales with the fewest cells, found by looking for the least N(rho), and the widths that follow."""
    rho, widths = _least(lambda value: cells(value, math.e), 1.1, 10.0), [minimum_width(p, base=base) for p in axes]
    return [Economy(p, rho, rho ** (1 / p), width) for p, width in zip(axes, widths, strict=True)]


def minimum_width(axes: int, *, base: float = 10000.0) -> float:
    """``d >= 2 P ln(base)``: the width from which neighbouring scales differ by at most ``e^(1/P)`` (eq. 15)."""
    if axes < 1 or not base > 1:
        raise ValueError(f"scales need at least one axis and a base above 1; got axes={axes}, base={base:g}.")
    return 2 * axes * math.log(base)


def ratio_at_width(width: int, *, base: float = 10000.0) -> float:
    """``base^(2 / d)``, what neighbouring scales of Vaswani's encoding differ by (eq. 12).

    1.155 at width 128, where the paper prints 1.457, and 1.0366 at 512.
    """
    if width < 1 or not base > 1:
        raise ValueError(f"scales need a width of at least 1 and a base above 1; got width={width}, base={base:g}.")
    return base ** (2 / width)


def kernel(displacement: Tensor, waves: Tensor, weights: Tensor | None = None) -> Tensor:
    """``kappa(d) = (1/D) sum_i |c_i|^2 cos(k_i . d)`` for displacements ``(.., P)`` and waves ``(D, P)`` (eq. 8).

    weights: ``|c_i|^2 (D,)``, 1 by default. The real part: waves come in opposite pairs, or are counted as if.
    """
    _same_axes("the displacements have", displacement, waves)
    cos = (displacement.double() @ waves.double().mT).cos()
    return cos.mean(-1) if weights is None else (cos * weights.double()).mean(-1)


class Convergence(NamedTuple):
    """``error``: root mean square of kernel minus its limit over displacements and draws, for so many waves."""

    waves: int
    error: float


def kernel_convergence(
    draw: Callable[[int, torch.Generator], Tensor],
    limit: Callable[[Tensor], Tensor],
    displacement: Tensor,
    counts: Sequence[int] = (16, 64, 256, 1024),
    *,
    draws: int = 20,
    seed: int = 0,
) -> list[Convergence]:
    """How fast random waves approach the kernel of their distribution (eqs. 7, 8): as ``1 / sqrt(D)``.

    draw: waves ``(D, P)`` from a count and a generator. limit: the kernel that they stand for, as ``exp(-sigma^2
    |d|^2 / 2)`` for normal waves.
    """
    table = []
    for count in counts:
        generator = torch.Generator().manual_seed(seed)
        wrong = [kernel(displacement, draw(count, generator)) - limit(displacement.double()) for _ in range(draws)]
        table.append(Convergence(count, float(torch.stack(wrong).square().mean().sqrt())))
    return table


def inner_product_of_maps(displacement: Tensor, waves: Tensor, weights: Tensor, *, size: float, count: int) -> Tensor:
    """``<g(x), g(x - d)>`` as the mean over a square of places (eq. 6), complex ``(M,)`` for displacements ``(M, P)``.

    The larger the square, the nearer to ``sum_i |c_i|^2 exp(j k_i . d)``. weights: ``c_i``, real or complex.
    """
    line = torch.linspace(-size / 2, size / 2, count, dtype=torch.float64)
    axes = waves.shape[1]
    points = torch.stack(torch.meshgrid(*[line] * axes, indexing="ij"), -1).flatten(0, -2)

    def g(x: Tensor) -> Tensor:
        return torch.exp(1j * (x @ waves.double().mT)) @ weights.to(torch.complex128)

    return torch.stack([(g(points) * g(points - d).conj()).mean() for d in displacement.double()])


class Likeness(NamedTuple):
    """Inner products with the core over the unit square, 1 at the core: ``surface (n, n)``, and ``profile (n,)`` along
    the second axis through the core, at ``line (n,)``."""

    surface: Tensor
    profile: Tensor
    line: Tensor


def likeness_with_core(
    waves: Tensor, weights: Tensor | None = None, *, count: int = 51, core: Sequence[float] = (0.5, 0.5)
) -> Likeness:
    """``Re <W_x, W_core>`` over the unit square, wave by wave (Fig. 3), for layers of waves ``(d, n, 2)``.

    weights: ``|c_i|^2 (n,)``. ``simplex.wave_vectors`` makes such waves; the paper's are ``|w_k| = 200^(k/d)``.
    """
    flat = waves.double().flatten(0, 1)
    each = None if weights is None else weights.double().repeat(len(waves))
    top = kernel(torch.zeros(2), flat, each)
    return _over_the_square(lambda x, centre: kernel(x - centre, flat, each) / top, count, core)


def summed_likeness_with_core(
    waves: Tensor, coefficients: Tensor | None = None, *, count: int = 51, core: Sequence[float] = (0.5, 0.5)
) -> Likeness:
    """``Re sum_k conj(g_k(core)) g_k(x)`` of the sums ``g_k = sum_i c_i exp(j w_ik . x)`` as eq. 17 has them (Fig. 3).

    Between waves of one layer stay cross terms, so it depends on the core and may exceed 1 elsewhere: the paper calls
    it a function of ``x - core``, which only ``likeness_with_core`` is. coefficients: ``c_i (n,)``, 1 by default.
    """
    c = torch.ones(waves.shape[1]) if coefficients is None else coefficients

    def g(x: Tensor) -> Tensor:
        return torch.exp(1j * torch.einsum("...p,knp->...kn", x, waves.double())) @ c.to(torch.complex128)

    def likeness(x: Tensor, centre: Tensor) -> Tensor:
        there = g(centre)
        return (g(x) @ there.conj()).real / there.abs().square().sum()

    return _over_the_square(likeness, count, core)


def _over_the_square(likeness: Callable[[Tensor, Tensor], Tensor], count: int, core: Sequence[float]) -> Likeness:
    line, centre = torch.linspace(0, 1, count, dtype=torch.float64), torch.tensor(core, dtype=torch.float64)
    points = torch.stack(torch.meshgrid(line, line, indexing="ij"), -1)
    through = torch.stack([centre[0].expand(count), line], -1)
    return Likeness(likeness(points, centre), likeness(through, centre), line)


def likeness_of_scheme(
    scheme: Scheme, pos: Positions, core: int, *, head_dim: int = 64, heads: int | None = None
) -> Tensor:
    """How alike every place is to one of them to a scheme, ``(N,)``: the cosine of ``firing_maps``' rows."""
    maps = firing_maps(scheme, pos, head_dim=head_dim, heads=heads)
    maps = maps / maps.norm(dim=-1, keepdim=True).clamp(min=1e-300)
    return maps @ maps[core]


def table(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Any of these results, named tuples, as rows of a table."""
    return [row._asdict() for row in rows]


def _same_axes(whose: str, points: Tensor, waves: Tensor) -> None:
    if points.shape[-1] != waves.shape[-1]:
        raise ValueError(f"{whose} {points.shape[-1]} axes and the waves {waves.shape[-1]}; give both the same.")


def _least(f: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one minimum is least, by golden section."""
    golden = (math.sqrt(5) - 1) / 2
    while high - low > 1e-9:
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if f(left) < f(right) else (left, high)
    return (low + high) / 2
