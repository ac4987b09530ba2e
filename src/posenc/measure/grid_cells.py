"""Grid cell theory of positional encodings: firing maps, the economy principle and inner products over a plane.

    phi(t) - phi(0) = w_s t + beta k . x(t)                             (eqs. 1, 2)
    g(x) = sum_i c_i cos(k_i . x)                                       (eqs. 3, 4; 3 at 120 degrees: hexagonal)
    <g(x), g(y)> = sum_i |c_i|^2 exp(j k_i . d),  d = x - y             (eqs. 6 to 8)
    N = d rho log_rho R,  least at rho = r^p = e                        (eqs. 9 to 11)

Source: Li et al. 2024, arXiv 2406.07049, version 2, after Wei et al. 2015 (economy of grid modules). All functions are
pure and compute in float64.
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
"""Sites at which a scheme may map vectors, in the order in which ``firing_maps`` tries them."""


def oscillator_phases(
    path: Tensor, times: Tensor, waves: Tensor, *, base: float = 2 * math.pi * 8, beta: float = 1.0
) -> Tensor:
    """Integrate the phases of velocity-controlled oscillators, ``d phi = (w_s + beta v . k) dt`` (eq. 1).

    By eq. 2 the phases depend on the displacement only: ``phi = w_s t + beta k . (x(t) - x(0))``.

    Args:
        path: positions of the animal, ``(T, P)``.
        times: increasing times ``(T,)`` in seconds.
        waves: wave vectors ``k (n, P)``, in radians per unit of position.
        base: ``w_s`` in radians per second; by default the theta rhythm of 8 Hz.
        beta: factor of the velocity term.

    Returns:
        Phases ``(T, n)`` in radians, 0 at the first time.

    Raises:
        ValueError: times that do not increase, or a path of another length or number of axes.
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
    """Compute the activation ``g(x) = sum_i c_i cos(k_i . x)`` of a grid cell (eqs. 3, 4).

    Args:
        points: positions ``x (.., P)``.
        waves: wave vectors ``k (n, P)``.
        coefficients: ``c (n,)``; by default 1.

    Returns:
        Activations ``(..,)``.
    """
    _same_axes("the points have", points, waves)
    cos = (points.double() @ waves.double().mT).cos()
    return cos.sum(-1) if coefficients is None else cos @ coefficients.double()


def firing_map(
    size: float, count: int, *, wavelength: float, orientation: float = 0.0, phase: Sequence[float] = (0.0, 0.0)
) -> Tensor:
    """Compute the firing map of a grid cell on a square that is centered at 0.

    The activation is the sum of three waves of one wavelength, 120 degrees apart. Its maxima have height 3 and form a
    hexagonal lattice with distance ``2 / sqrt(3)`` wavelengths between neighbors. Its minima are -3/2.

    Args:
        size: side of the square, in units of position.
        count: number of points along each side.
        wavelength: wavelength, in units of position.
        orientation: direction of the first wave in radians.
        phase: position of one maximum.

    Returns:
        Activations ``(count, count)``, rows along the first axis.

    Raises:
        ValueError: a wavelength or size that is not above 0, or no point.
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
    """Compute the channels of a scheme at positions: its embedding rows, or its map of a vector of ones.

    The vector is treated as a key if the scheme maps keys, else as a query, a value or an output. If heads differ, the
    channels are those of the first head.

    Args:
        scheme: the scheme.
        pos: N positions.
        head_dim: width of a head, for schemes that accept any.
        heads: number of heads that the scheme is built for, if it has no attribute ``heads``.

    Returns:
        Channels ``(N, C)``.

    Raises:
        ValueError: a scheme that neither embeds nor maps vectors. For a bias on logits use
            ``distance_decay.logit_on_plane``.
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
    """Firing fields of a module in comparison with the next finer module.

    Attributes:
        period: period of the module.
        field: diameter of its firing fields.
        finer_period: period of the next finer module.
        inside: number of fields of the finer module within one field of the module.
        ambiguous: whether that number is above 1.
    """

    period: float
    field: float
    finer_period: float
    inside: int
    ambiguous: bool


def fields_against_periods(periods: Sequence[float], fields: Sequence[float]) -> list[Fields]:
    """Check the condition ``l_i <= lambda_{i-1}`` for unambiguous decoding of nested grid modules (Fig. 2).

    It counts how many fields of the finer module fit into one firing field: centers in an open interval of length l_i,
    at the position with the most.

    Args:
        periods: periods ``lambda_i``, ascending.
        fields: diameters ``l_i`` of the firing fields.

    Returns:
        One row per module except the finest.

    Raises:
        ValueError: periods that do not ascend, lengths that are not above 0, or another number of fields.
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
    """Compute the number of grid cells ``N(rho) = d rho log_rho R`` (eq. 11).

    Args:
        rho: ``r^P`` for the ratio r of neighboring scales on P axes, above 1.
        resolution: spatial resolution R to reach, above 1.
        depth: number of cells d of a module that cover each position.

    Returns:
        Number of cells.

    Raises:
        ValueError: ``rho`` or ``resolution`` not above 1.
    """
    if not (rho > 1 and resolution > 1):
        raise ValueError(f"rho and the resolution are greater than 1; got rho={rho:g}, resolution={resolution:g}.")
    return depth * rho * math.log(resolution) / math.log(rho)


class Economy(NamedTuple):
    """Economical scales for P axes.

    Attributes:
        axes: P.
        rho: the ratio with the fewest cells.
        ratio: ratio of neighboring scales, ``r = rho^(1/P)``.
        width: smallest encoding width for a base.
    """

    axes: int
    rho: float
    ratio: float
    width: float


def economy(axes: Sequence[int] = (1, 2, 3), *, base: float = 10000.0) -> list[Economy]:
    """Minimize the number of cells ``N(rho)`` numerically, and derive scale ratios and encoding widths.

    Args:
        axes: numbers of axes P.
        base: base of the frequencies.

    Returns:
        One row per number of axes.
    """
    rho, widths = _least(lambda value: cells(value, math.e), 1.1, 10.0), [minimum_width(p, base=base) for p in axes]
    return [Economy(p, rho, rho ** (1 / p), width) for p, width in zip(axes, widths, strict=True)]


def minimum_width(axes: int, *, base: float = 10000.0) -> float:
    """Compute the smallest width ``d = 2 P ln(base)`` whose neighboring scales differ by at most ``e^(1/P)`` (eq. 15).

    Args:
        axes: number of axes P.
        base: base of the frequencies, above 1.

    Returns:
        The width.
    """
    if axes < 1 or not base > 1:
        raise ValueError(f"scales need at least one axis and a base above 1; got axes={axes}, base={base:g}.")
    return 2 * axes * math.log(base)


def ratio_at_width(width: int, *, base: float = 10000.0) -> float:
    """Compute the ratio of neighboring scales of Vaswani's encoding, ``base^(2 / d)`` (eq. 12).

    It is 1.155 at width 128, where the paper prints 1.457, and 1.0366 at width 512.

    Args:
        width: encoding width d.
        base: base of the frequencies, above 1.

    Returns:
        The ratio.
    """
    if width < 1 or not base > 1:
        raise ValueError(f"scales need a width of at least 1 and a base above 1; got width={width}, base={base:g}.")
    return base ** (2 / width)


def kernel(displacement: Tensor, waves: Tensor, weights: Tensor | None = None) -> Tensor:
    """Compute the kernel ``kappa(d) = (1/D) sum_i |c_i|^2 cos(k_i . d)`` of displacements (eq. 8).

    It is the real part of the complex kernel, which is the whole kernel if waves come in opposite pairs.

    Args:
        displacement: displacements ``d (.., P)``.
        waves: wave vectors ``k (D, P)``.
        weights: ``|c_i|^2 (D,)``; by default 1.

    Returns:
        Kernel values ``(..,)``.
    """
    _same_axes("the displacements have", displacement, waves)
    cos = (displacement.double() @ waves.double().mT).cos()
    return cos.mean(-1) if weights is None else (cos * weights.double()).mean(-1)


class Convergence(NamedTuple):
    """Error of the kernel of random waves.

    Attributes:
        waves: number of waves.
        error: root mean square of the kernel minus its limit, over displacements and draws.
    """

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
    """Measure the convergence of random waves to the kernel of their distribution, as ``1 / sqrt(D)`` (eqs. 7, 8).

    Args:
        draw: function of a count and a generator that returns waves ``(D, P)``.
        limit: kernel of the distribution, as ``exp(-sigma^2 |d|^2 / 2)`` for normal waves.
        displacement: displacements ``(M, P)``.
        counts: numbers of waves D.
        draws: number of draws for each count.
        seed: seed of the draws.

    Returns:
        One row per number of waves.
    """
    table = []
    for count in counts:
        generator = torch.Generator().manual_seed(seed)
        wrong = [kernel(displacement, draw(count, generator)) - limit(displacement.double()) for _ in range(draws)]
        table.append(Convergence(count, float(torch.stack(wrong).square().mean().sqrt())))
    return table


def inner_product_of_maps(displacement: Tensor, waves: Tensor, weights: Tensor, *, size: float, count: int) -> Tensor:
    """Compute the inner product ``<g(x), g(x - d)>`` as a mean over a square of positions (eq. 6).

    It approaches ``sum_i |c_i|^2 exp(j k_i . d)`` as the square grows.

    Args:
        displacement: displacements ``d (M, P)``.
        waves: wave vectors ``k (n, P)``.
        weights: coefficients ``c (n,)``, real or complex.
        size: side of the square.
        count: number of points along each side.

    Returns:
        Inner products ``(M,)``, complex.
    """
    line = torch.linspace(-size / 2, size / 2, count, dtype=torch.float64)
    axes = waves.shape[1]
    points = torch.stack(torch.meshgrid(*[line] * axes, indexing="ij"), -1).flatten(0, -2)

    def g(x: Tensor) -> Tensor:
        return torch.exp(1j * (x @ waves.double().mT)) @ weights.to(torch.complex128)

    return torch.stack([(g(points) * g(points - d).conj()).mean() for d in displacement.double()])


class InnerProducts(NamedTuple):
    """Inner products with the encoding of one position, the core, over the unit square; 1 at the core.

    Attributes:
        surface: inner products ``(n, n)`` on the square.
        profile: inner products ``(n,)`` along the second axis through the core.
        line: coordinates ``(n,)`` of the profile.
    """

    surface: Tensor
    profile: Tensor
    line: Tensor


def inner_products_with_core(
    waves: Tensor, weights: Tensor | None = None, *, count: int = 51, core: Sequence[float] = (0.5, 0.5)
) -> InnerProducts:
    """Compute the inner product ``Re <W_x, W_core>`` over the unit square, wave by wave (Fig. 3).

    Args:
        waves: wave vectors ``(d, n, 2)`` of d layers, as ``simplex.wave_vectors`` makes them. The paper's have lengths
            ``|w_k| = 200^(k/d)``.
        weights: ``|c_i|^2 (n,)``; by default 1.
        count: number of points along each side of the square.
        core: position of the core.

    Returns:
        Inner products, 1 at the core.
    """
    flat = waves.double().flatten(0, 1)
    each = None if weights is None else weights.double().repeat(len(waves))
    top = kernel(torch.zeros(2), flat, each)
    return _over_the_square(lambda x, center: kernel(x - center, flat, each) / top, count, core)


def summed_inner_products_with_core(
    waves: Tensor, coefficients: Tensor | None = None, *, count: int = 51, core: Sequence[float] = (0.5, 0.5)
) -> InnerProducts:
    """Compute ``Re sum_k conj(g_k(core)) g_k(x)`` of the sums ``g_k = sum_i c_i exp(j w_ik . x)`` (eq. 17, Fig. 3).

    Cross terms between waves of one layer remain. The result therefore depends on the core and may exceed 1 elsewhere.
    The paper calls it a function of ``x - core``, which holds for ``inner_products_with_core`` only.

    Args:
        waves: wave vectors ``(d, n, 2)`` of d layers.
        coefficients: ``c (n,)``; by default 1.
        count: number of points along each side of the square.
        core: position of the core.

    Returns:
        Inner products, 1 at the core.
    """
    c = torch.ones(waves.shape[1]) if coefficients is None else coefficients

    def g(x: Tensor) -> Tensor:
        return torch.exp(1j * torch.einsum("...p,knp->...kn", x, waves.double())) @ c.to(torch.complex128)

    def likeness(x: Tensor, center: Tensor) -> Tensor:
        core_sums = g(center)
        return (g(x) @ core_sums.conj()).real / core_sums.abs().square().sum()

    return _over_the_square(likeness, count, core)


def _over_the_square(likeness: Callable[[Tensor, Tensor], Tensor], count: int, core: Sequence[float]) -> InnerProducts:
    line, center = torch.linspace(0, 1, count, dtype=torch.float64), torch.tensor(core, dtype=torch.float64)
    points = torch.stack(torch.meshgrid(line, line, indexing="ij"), -1)
    through = torch.stack([center[0].expand(count), line], -1)
    return InnerProducts(likeness(points, center), likeness(through, center), line)


def cosine_similarity_of_scheme(
    scheme: Scheme, pos: Positions, core: int, *, head_dim: int = 64, heads: int | None = None
) -> Tensor:
    """Compute the cosine similarity of a scheme's channels at every position with those at one position.

    Args:
        scheme: the scheme.
        pos: N positions.
        core: index of the position to compare with.
        head_dim: width of a head, for schemes that accept any.
        heads: number of heads that the scheme is built for, if it has no attribute ``heads``.

    Returns:
        Cosine similarities ``(N,)`` of the rows of ``firing_maps``.
    """
    maps = firing_maps(scheme, pos, head_dim=head_dim, heads=heads)
    maps = maps / maps.norm(dim=-1, keepdim=True).clamp(min=1e-300)
    return maps @ maps[core]


def table(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Convert results of this module (named tuples) to rows of a table.

    Args:
        rows: named tuples.

    Returns:
        One dictionary per named tuple.
    """
    return [row._asdict() for row in rows]


def _same_axes(whose: str, points: Tensor, waves: Tensor) -> None:
    if points.shape[-1] != waves.shape[-1]:
        raise ValueError(f"{whose} {points.shape[-1]} axes and the waves {waves.shape[-1]}; give both the same.")


def _least(f: Callable[[float], float], low: float, high: float) -> float:
    """Return the position of the minimum of a unimodal function, by golden-section search."""
    golden = (math.sqrt(5) - 1) / 2
    while high - low > 1e-9:
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if f(left) < f(right) else (left, high)
    return (low + high) / 2
