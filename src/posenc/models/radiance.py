"""Neural radiance field (NeRF): density and color in a cube, rendered along rays.

    (z, h) = field(p),   sigma(p) = exp(z + z_0),   c(p, d) = sigmoid(V_2 relu(V_1 [h | Y(d)] + v_1) + v_2)

    a_i = 1 - exp(-sigma(p_i) (t_{i+1} - t_i)),   w_i = a_i prod_{j<i} (1 - a_j)
    C = sum_i w_i c(p_i, d) + (1 - sum_i w_i) c_behind(d),   p_i = o + s_i d,   t_i <= s_i <= t_{i+1}

The ray enters the cube at t_0 and leaves it at t_N. Sections divide the ray between them without gaps, so the
quadrature is exact for constant density, wherever s_i lies in its section. Y are spherical harmonics of the view
direction. The constant z_0 sets the initial density. The background behind the cube is white, one random color per ray,
or learned as a function of direction.

Sources: Mildenhall et al. 2020, arXiv 2003.08934 (equations 1 to 3 and 5); Müller et al. 2022, arXiv 2201.05989,
section 5.4 and appendix E (exponential density, Y, occupancy grid). All lengths are in units of the cube's side.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import msgspec
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from posenc.models.field import Field, FieldConfig, network_size
from posenc.positions import sphere
from posenc.schemes.spherical_harmonics import SphericalHarmonics

STEEPEST = 12.0
"""Exponent above which the density continues as a straight line, so that neither it nor its slope overflows."""


class RadianceConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of a radiance field, without the field of density and features.

    Attributes:
        features: number of features h that the field passes to the color network.
        width: width of the color network's hidden layer.
        degree: degree of the spherical harmonics of the view direction.
        views: whether the color depends on the view direction, or on the position alone.
        background: color behind the cube.
        samples: number of sections per ray.
        fine: number of sections that a second pass adds where the first pass finds weight; 0 for no second pass.
        cells: number of cells of the occupancy grid along each axis; 0 for no occupancy grid.
        first: approximate initial density.
    """

    features: int = 15
    width: int = 64
    degree: int = 3
    views: bool = True
    background: Literal["white", "random", "learned"] = "learned"
    samples: int = 96
    fine: int = 0
    cells: int = 32
    first: float = 1.0

    def __post_init__(self) -> None:
        if min(self.features, self.width, self.samples, self.degree) < 1:
            raise ValueError(
                f"a radiance field has at least one feature, hidden unit, section per ray and degree; got features="
                f"{self.features}, width={self.width}, samples={self.samples}, degree={self.degree}."
            )
        if min(self.fine, self.cells) < 0 or not self.first > 0:
            raise ValueError(
                f"fine and cells are not negative, and the first density is above 0; got fine={self.fine}, "
                f"cells={self.cells}, first={self.first:g}."
            )

    @property
    def per_ray(self) -> int:
        """Number of sections per ray, including those of the second pass."""
        return self.samples + self.fine


class RenderedRays(NamedTuple):
    """Rendered rays.

    Attributes:
        color: color ``(R, 3)``, background included.
        opacity: sum of the weights inside the cube, ``(R,)``, from 0 to 1.
        depth: weighted mean distance from the origin, ``(R,)``, in sides of the cube.
        points: number of points at which the field was evaluated.
    """

    color: Float[Tensor, "R 3"]
    opacity: Float[Tensor, "R"]
    depth: Float[Tensor, "R"]
    points: int


class Radiance(nn.Module):
    """Neural radiance field that renders rays ``(R, 3)``. The cube is [0, 1]^3 in the rays' coordinates.

    Args:
        field: a field of 3 axes with ``1 + config.features`` outputs, the density and the features.
        config: sizes and sampling.

    Raises:
        ValueError: a field of another number of axes or outputs.
    """

    def __init__(self, field: Field, config: RadianceConfig) -> None:
        super().__init__()
        if field.config.outputs != 1 + config.features or field.scheme.claims.axes not in (3, None):
            raise ValueError(
                f"a radiance field needs a field of 3 axes and 1 + {config.features} outputs, a density and features; "
                f"got {field.scheme.claims.axes} axes and {field.config.outputs} outputs."
            )
        self.field, self.config = field, config
        self.directions = SphericalHarmonics(config.degree)
        around = self.directions.out_dim
        self.colour = _two_layers(config.features + around * config.views, config.width)  # a name of stored weights
        self.sky = _two_layers(around, config.width // 2 or 1) if config.background == "learned" else None
        self.occupancy = Occupancy(config.cells, config.per_ray) if config.cells else None

    def forward(
        self,
        origin: Float[Tensor, "R 3"],
        direction: Float[Tensor, "R 3"],
        behind: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
        most: int | None = None,
    ) -> RenderedRays:
        """Render rays.

        Args:
            origin: origins of the rays, ``(R, 3)``.
            direction: directions of the rays, unit vectors ``(R, 3)``.
            behind: background colors ``(3,)`` or ``(R, 3)``; by default those of ``config.background``.
            generator: random generator of the sample points within sections; without one the midpoints are used.
            most: largest number of points at which the field is evaluated. The first rays that need no more points
                together are rendered, at least one ray.

        Returns:
            Color, opacity and depth of the rendered rays.
        """
        near, far = intersect_cube(origin, direction)
        edges = sections(near, far, self.config.samples)
        places, inside = self._places(origin, direction, edges, generator)
        if self.config.fine:
            share = self.config.samples / self.config.per_ray  # first-pass share of the points of both passes
            rays = _rays(inside, None if most is None else int(most * share))
            origin, direction, edges = origin[:rays], direction[:rays], edges[:rays]
            edges = self._finer(edges, places[:rays], inside[:rays])
            places, inside = self._places(origin, direction, edges, generator)
        rays = _rays(inside, most)
        edges, places, inside, direction = edges[:rays], places[:rays], inside[:rays], direction[:rays]
        ray, section = inside.nonzero(as_tuple=True)
        around = self._around(direction)
        density, h = self.density(places[ray, section])
        color = self.colour(torch.cat([h, around[ray]], -1) if self.config.views else h).sigmoid()
        length = edges.diff(dim=-1)
        weight, left = weights(torch.zeros_like(length).index_put((ray, section), density), length)
        rendered = torch.zeros_like(direction).index_add(0, ray, weight[ray, section][:, None] * color)
        middle = (edges[:, 1:] + edges[:, :-1]) / 2
        depth = (weight * middle).sum(-1) / weight.sum(-1).clamp_min(1e-6)
        background = self._sky(around) if behind is None else behind[:rays] if behind.dim() == 2 else behind
        return RenderedRays(rendered + left[:, None] * background, 1 - left, depth, len(ray))

    def density(self, places: Float[Tensor, "M 3"]) -> tuple[Float[Tensor, "M"], Float[Tensor, "M features"]]:
        """Evaluate the density ``sigma (M,)`` and the features ``h (M, features)`` at points ``(M, 3)`` of the cube."""
        out = self.field(places)
        return density_activation(out[:, 0].to(places.dtype) + math.log(self.config.first)), out[:, 1:]

    def behind(self, direction: Float[Tensor, "R 3"]) -> Float[Tensor, "R 3"]:
        """Return the background colors ``(R, 3)`` for view directions ``(R, 3)``."""
        return self._sky(self._around(direction))

    @property
    def parameter_count(self) -> int:
        """Number of trained parameters."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def _sky(self, around: Tensor) -> Tensor:
        return around.new_ones(len(around), 3) if self.sky is None else self.sky(around).sigmoid()

    def _around(self, direction: Tensor) -> Float[Tensor, "R Y"]:
        """Return spherical harmonics of directions times sqrt(4 pi), so that values are of size about 1."""
        x, y, z = direction.double().unbind(-1)
        where = sphere(torch.atan2(y, x), torch.asin(z.clamp(-1, 1)), unit="radians")
        rows = self.directions.embed(self.directions.prepare(where)) * math.sqrt(4 * math.pi)
        return rows.to(next(self.colour.parameters()).dtype)

    def _places(
        self, origin: Tensor, direction: Tensor, edges: Tensor, generator: torch.Generator | None
    ) -> tuple[Float[Tensor, "R N 3"], Bool[Tensor, "R N"]]:
        """Return one point in each section, and whether the occupancy grid marks it as possibly occupied."""
        length = edges.diff(dim=-1)
        part = 0.5 if generator is None else _uniform(length.shape, generator, length)
        places = (origin[:, None] + (edges[:, :-1] + part * length)[..., None] * direction[:, None]).clamp(0, 1)
        inside = length > 0
        return places, inside if self.occupancy is None else inside & self.occupancy(places)

    @torch.no_grad()
    def _finer(
        self, edges: Tensor, places: Float[Tensor, "R N 3"], inside: Bool[Tensor, "R N"]
    ) -> Float[Tensor, "R M1"]:
        """Add the edges of ``fine`` sections to ``edges``, denser where the first pass found weight."""
        density = torch.zeros_like(places[..., 0])
        density[inside], _ = self.density(places[inside])
        weight, _ = weights(density, edges.diff(dim=-1))
        # density at one point may extend into the next section: the blur of weights of mip-NeRF, arXiv 2103.13415
        before, after = (
            torch.cat(pair, -1) for pair in ((weight[:, :1], weight[:, :-1]), (weight[:, 1:], weight[:, -1:]))
        )
        wide = (torch.maximum(weight, before) + torch.maximum(weight, after)) / 2
        return torch.cat([edges, resampled(edges, wide, self.config.fine + 1)[:, 1:-1]], -1).sort(-1).values


class Occupancy(nn.Module):
    """Occupancy grid: marks the cells of the cube, ``cells^3`` of them, in which recent density was found.

        level <- max(level decay, sigma(p)),  p random in the cell;    occupied: level >= min(0.01 per_ray, mean level)

    Each update evaluates an eighth of all cells, and as many of the occupied cells. At first all cells are occupied.

    Args:
        cells: number of cells along each axis.
        per_ray: number of sections per ray.
        decay: factor on the stored level of a cell at every update.
    """

    level: Tensor
    occupied: Tensor

    def __init__(self, cells: int, per_ray: int, decay: float = 0.8) -> None:
        super().__init__()
        self.cells, self.decay, self.threshold = cells, decay, 0.01 * per_ray
        self.register_buffer("level", torch.full((cells**3,), self.threshold / decay))
        self.register_buffer("occupied", torch.ones(cells**3, dtype=torch.bool))

    def forward(self, places: Float[Tensor, "*B 3"]) -> Bool[Tensor, "*B"]:
        """Return True for points in occupied cells."""
        return self.occupied[self._number(places)]

    def _number(self, places: Float[Tensor, "*B 3"]) -> Int[Tensor, "*B"]:
        cell = (places * self.cells).long().clamp_(max=self.cells - 1)
        return (cell[..., 0] * self.cells + cell[..., 1]) * self.cells + cell[..., 2]

    @torch.no_grad()
    def look(self, radiance: Radiance, generator: torch.Generator) -> None:
        """Update the levels of some cells with the present density of ``radiance``."""
        count, device = max(1, self.cells**3 // 8), self.level.device
        occupied = self.occupied.nonzero()[:, 0]
        picked = torch.randint(max(1, len(occupied)), (count,), generator=generator).to(device)
        number = torch.randint(self.cells**3, (count,), generator=generator).to(device)
        number = torch.cat([number, occupied[picked]]) if len(occupied) else number
        corner = torch.stack([number // self.cells**2, number // self.cells % self.cells, number % self.cells], -1)
        places = (corner + _uniform(corner.shape, generator, self.level)) / self.cells
        density, _ = radiance.density(places)
        level = self.level.clone()
        level[number] = self.decay * self.level[number]
        self.level.copy_(level.scatter_reduce(0, number, density.to(level.dtype), "amax"))
        self.occupied.copy_(self.level >= self.level.mean().clamp(max=self.threshold))


def _rays(inside: Bool[Tensor, "R N"], most: int | None) -> int:
    """Return the largest number of leading rays that need at most ``most`` points together; at least one."""
    return len(inside) if most is None else max(1, int((inside.sum(-1).cumsum(0) <= most).sum()))


def parameters_outside_field(config: RadianceConfig) -> int:
    """Count the parameters of a radiance field without its field: the color network and the background network.

    Args:
        config: sizes of the radiance field.

    Returns:
        Number of weights and biases.
    """
    around = (config.degree + 1) ** 2
    count = network_size(config.features + around * config.views, _layer(config.width))
    return count + (network_size(around, _layer(config.width // 2 or 1)) if config.background == "learned" else 0)


def intersect_cube(
    origin: Float[Tensor, "R 3"], direction: Float[Tensor, "R 3"]
) -> tuple[Float[Tensor, "R"], Float[Tensor, "R"]]:
    """Intersect rays with the cube [0, 1]^3.

    Args:
        origin: ``(R, 3)``.
        direction: ``(R, 3)``.

    Returns:
        Distances ``(R,)`` at which each ray enters and leaves the cube, at least 0; equal if the ray misses the cube.
    """
    slow = direction.abs() < 1e-9
    steady = torch.where(slow, torch.full_like(direction, 1e-9).copysign(direction), direction)
    a, b = -origin / steady, (1 - origin) / steady
    near = torch.minimum(a, b).amax(-1).clamp_min(0)
    return near, torch.maximum(torch.maximum(a, b).amin(-1), near)


def sections(near: Float[Tensor, "R"], far: Float[Tensor, "R"], count: int) -> Float[Tensor, "R count1"]:
    """Divide each ray between ``near (R,)`` and ``far (R,)`` into ``count`` equal sections.

    Args:
        near: distance at which each ray enters the cube.
        far: distance at which each ray leaves the cube.
        count: number of sections.

    Returns:
        Edges of the sections, ``(R, count + 1)``.
    """
    part = torch.linspace(0, 1, count + 1, dtype=near.dtype, device=near.device)
    return near[:, None] + (far - near)[:, None] * part


def weights(
    density: Float[Tensor, "R N"], length: Float[Tensor, "R N"]
) -> tuple[Float[Tensor, "R N"], Float[Tensor, "R"]]:
    """Compute the volume rendering weights of sections, and the transmittance that remains.

        w_i = (1 - exp(-sigma_i l_i)) exp(-sum_{j<i} sigma_j l_j)

    Args:
        density: ``sigma (R, N)``.
        length: lengths ``l (R, N)`` of the sections.

    Returns:
        Weights ``w (R, N)``, and ``1 - sum_i w_i`` as ``(R,)``.
    """
    thick = density * length
    through = torch.exp(-torch.cumsum(thick, -1))
    before = torch.cat([torch.ones_like(through[:, :1]), through[:, :-1]], -1)
    return before * -torch.expm1(-thick), through[:, -1]


def resampled(
    edges: Float[Tensor, "R N1"], weight: Float[Tensor, "R N"], count: int, floor: float = 0.01
) -> Float[Tensor, "R M1"]:
    """Divide each ray into sections of equal weight (inverse transform sampling at fixed quantiles).

    Args:
        edges: edges ``(R, N + 1)`` of the present sections.
        weight: weights ``(R, N)`` of the present sections.
        count: number of new sections.
        floor: share of the weight that is spread evenly over all sections, so that every section gets samples.

    Returns:
        Edges ``(R, count + 1)`` from the first edge to the last.
    """
    even = torch.full_like(weight, 1 / weight.shape[-1])
    total = weight.sum(-1, keepdim=True)
    share = torch.where(total > 1e-8, (1 - floor) * weight / total.clamp_min(1e-8) + floor * even, even)
    below = torch.cat([torch.zeros_like(share[:, :1]), torch.cumsum(share, -1)], -1)
    below = below / below[:, -1:]
    wanted = torch.linspace(0, 1, count + 1, dtype=edges.dtype, device=edges.device).expand(len(edges), -1).contiguous()
    right = torch.searchsorted(below.contiguous(), wanted, right=True).clamp(1, weight.shape[-1])
    low, high = below.gather(1, right - 1), below.gather(1, right)
    part = ((wanted - low) / (high - low).clamp_min(1e-12)).clamp(0, 1)
    start, stop = edges.gather(1, right - 1), edges.gather(1, right)
    return start + part * (stop - start)


def density_activation(z: Tensor) -> Tensor:
    """Return ``exp(z)``, continued as a straight line above STEEPEST, so that values and slopes stay finite."""
    top = z.clamp(max=STEEPEST)
    return torch.exp(top) * (1 + (z - top))


def _layer(width: int) -> FieldConfig:
    return FieldConfig(outputs=3, width=width, depth=1)


def _two_layers(inputs: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, 3))


def _uniform(shape: torch.Size, generator: torch.Generator, like: Tensor) -> Tensor:
    """Draw uniform numbers from 0 to 1 on the CPU, so that every device gets the same values."""
    return torch.rand(shape, generator=generator, dtype=like.dtype).to(like.device)
