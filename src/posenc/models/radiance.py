"""A radiance field: density and colour in a cube, seen along rays (NeRF), with an encoding of places and of directions.

    (z, h) = field(p),   sigma(p) = exp(z + z_0),   c(p, d) = sigmoid(V_2 relu(V_1 [h | Y(d)] + v_1) + v_2)

    a_i = 1 - exp(-sigma(p_i) (t_{i+1} - t_i)),   w_i = a_i prod_{j<i} (1 - a_j)
    C = sum_i w_i c(p_i, d) + (1 - sum_i w_i) c_behind(d),   p_i = o + s_i d,   t_i <= s_i <= t_{i+1}

The ray enters the cube at t_0 and leaves it at t_N: sections fill the way without gaps, so that the quadrature is exact
where density is constant, wherever s_i lies in its section. Y are spherical harmonics of the view direction, z_0 sets
how dense the first field is, and what is behind the cube is white, a random colour a ray, or learned by direction.

Sources: Mildenhall et al. 2020, arXiv 2003.08934 (equations 1 to 3 and 5); density by an exponential, Y and the grid of
occupied cells, Müller et al. 2022, arXiv 2201.05989, section 5.4 and appendix E. All lengths are in sides of the cube.
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
"""Above this exponent density goes on as a straight line, so that neither it nor its slope overflows."""


class RadianceConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands around the field.

    features: numbers h that the field hands to the colour. width: of the colour's hidden layer. degree: of the
    harmonics. views: whether colour depends on the direction, or on the place alone. background: behind the cube.
    samples: sections a ray. fine: sections that a second pass adds where the first one finds something; 0 for none.
    cells: of the occupancy grid, an axis; 0 for none. first: density of the first field, about.
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
                f"a radiance field has at least one feature, hidden unit, section a ray and degree; got features="
                f"{self.features}, width={self.width}, samples={self.samples}, degree={self.degree}."
            )
        if min(self.fine, self.cells) < 0 or not self.first > 0:
            raise ValueError(
                f"fine and cells are not negative, and the first density is above 0; got fine={self.fine}, "
                f"cells={self.cells}, first={self.first:g}."
            )

    @property
    def per_ray(self) -> int:
        """Sections of a ray in the end, those of the second pass too."""
        return self.samples + self.fine


class Seen(NamedTuple):
    """What rays see: ``colour (R, 3)``, how much of it lies in the cube, ``opacity (R,)``, and the mean ``depth (R,)``
    of that, in sides of the cube from the origin; the field was asked at ``points`` places."""

    colour: Float[Tensor, "R 3"]
    opacity: Float[Tensor, "R"]
    depth: Float[Tensor, "R"]
    points: int


class Radiance(nn.Module):
    """``radiance(origin, direction)``: what rays ``(R, 3)`` see, origins in coordinates in which the cube is [0, 1]^3.

    field: of three axes and ``1 + config.features`` outputs. Raises ValueError for another.
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
        self.colour = _two_layers(config.features + around * config.views, config.width)
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
    ) -> Seen:
        """behind: colours (3,) or (R, 3) behind the cube, instead of its own. generator: of places within sections,
        their middles where there is none. most: places that the field may be asked at; the first rays that need no
        more are looked along, at least one.
        """
        near, far = crossing(origin, direction)
        edges = sections(near, far, self.config.samples)
        places, inside = self._places(origin, direction, edges, generator)
        if self.config.fine:
            share = self.config.samples / self.config.per_ray  # of the places asked in the end
            rays = _rays(inside, None if most is None else int(most * share))
            origin, direction, edges = origin[:rays], direction[:rays], edges[:rays]
            edges = self._finer(edges, places[:rays], inside[:rays])
            places, inside = self._places(origin, direction, edges, generator)
        rays = _rays(inside, most)
        edges, places, inside, direction = edges[:rays], places[:rays], inside[:rays], direction[:rays]
        ray, section = inside.nonzero(as_tuple=True)
        around = self._around(direction)
        density, h = self.density(places[ray, section])
        colour = self.colour(torch.cat([h, around[ray]], -1) if self.config.views else h).sigmoid()
        length = edges.diff(dim=-1)
        weight, left = weights(torch.zeros_like(length).index_put((ray, section), density), length)
        shown = torch.zeros_like(direction).index_add(0, ray, weight[ray, section][:, None] * colour)
        middle = (edges[:, 1:] + edges[:, :-1]) / 2
        depth = (weight * middle).sum(-1) / weight.sum(-1).clamp_min(1e-6)
        back = self._sky(around) if behind is None else behind[:rays] if behind.dim() == 2 else behind
        return Seen(shown + left[:, None] * back, 1 - left, depth, len(ray))

    def density(self, places: Float[Tensor, "M 3"]) -> tuple[Float[Tensor, "M"], Float[Tensor, "M features"]]:
        """``sigma`` and ``h`` at places of the cube."""
        out = self.field(places)
        return growing(out[:, 0].to(places.dtype) + math.log(self.config.first)), out[:, 1:]

    def behind(self, direction: Float[Tensor, "R 3"]) -> Float[Tensor, "R 3"]:
        """The colour of what lies behind the cube."""
        return self._sky(self._around(direction))

    @property
    def parameter_count(self) -> int:
        """How many numbers training changes."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def _sky(self, around: Tensor) -> Tensor:
        return around.new_ones(len(around), 3) if self.sky is None else self.sky(around).sigmoid()

    def _around(self, direction: Tensor) -> Float[Tensor, "R Y"]:
        """The harmonics of directions, times sqrt(4 pi): of size about 1."""
        x, y, z = direction.double().unbind(-1)
        where = sphere(torch.atan2(y, x), torch.asin(z.clamp(-1, 1)), unit="radians")
        rows = self.directions.embed(self.directions.prepare(where)) * math.sqrt(4 * math.pi)
        return rows.to(next(self.colour.parameters()).dtype)

    def _places(
        self, origin: Tensor, direction: Tensor, edges: Tensor, generator: torch.Generator | None
    ) -> tuple[Float[Tensor, "R N 3"], Bool[Tensor, "R N"]]:
        """One place in each section, and whether anything may be there."""
        length = edges.diff(dim=-1)
        part = 0.5 if generator is None else _uniform(length.shape, generator, length)
        places = (origin[:, None] + (edges[:, :-1] + part * length)[..., None] * direction[:, None]).clamp(0, 1)
        inside = length > 0
        return places, inside if self.occupancy is None else inside & self.occupancy(places)

    @torch.no_grad()
    def _finer(
        self, edges: Tensor, places: Float[Tensor, "R N 3"], inside: Bool[Tensor, "R N"]
    ) -> Float[Tensor, "R M1"]:
        """The edges, and among them those of ``fine`` more sections, dense where a place in each finds weight."""
        density = torch.zeros_like(places[..., 0])
        density[inside], _ = self.density(places[inside])
        weight, _ = weights(density, edges.diff(dim=-1))
        # a neighbour may hold a part of what one place found: the blur of mip-NeRF, arXiv 2103.13415
        before, after = (
            torch.cat(pair, -1) for pair in ((weight[:, :1], weight[:, :-1]), (weight[:, 1:], weight[:, -1:]))
        )
        wide = (torch.maximum(weight, before) + torch.maximum(weight, after)) / 2
        return torch.cat([edges, resampled(edges, wide, self.config.fine + 1)[:, 1:-1]], -1).sort(-1).values


class Occupancy(nn.Module):
    """Which of ``cells^3`` cells of the cube may hold something: those where density was found lately.

        level <- max(level decay, sigma(p)),  p random in the cell;    occupied: level >= min(0.01 per_ray, mean level)

    Looked at anew for some cells at a time: an eighth of all, and as many of those that are occupied. All are at first.
    """

    level: Tensor
    occupied: Tensor

    def __init__(self, cells: int, per_ray: int, decay: float = 0.8) -> None:
        super().__init__()
        self.cells, self.decay, self.threshold = cells, decay, 0.01 * per_ray
        self.register_buffer("level", torch.full((cells**3,), self.threshold / decay))
        self.register_buffer("occupied", torch.ones(cells**3, dtype=torch.bool))

    def forward(self, places: Float[Tensor, "*B 3"]) -> Bool[Tensor, "*B"]:
        """Whether a place of the cube may hold something."""
        return self.occupied[self._number(places)]

    def _number(self, places: Float[Tensor, "*B 3"]) -> Int[Tensor, "*B"]:
        cell = (places * self.cells).long().clamp_(max=self.cells - 1)
        return (cell[..., 0] * self.cells + cell[..., 1]) * self.cells + cell[..., 2]

    @torch.no_grad()
    def look(self, radiance: Radiance, generator: torch.Generator) -> None:
        """Ask the field for its density in some of the cells."""
        count, device = max(1, self.cells**3 // 8), self.level.device
        known = self.occupied.nonzero()[:, 0]
        picked = torch.randint(max(1, len(known)), (count,), generator=generator).to(device)
        number = torch.randint(self.cells**3, (count,), generator=generator).to(device)
        number = torch.cat([number, known[picked]]) if len(known) else number
        corner = torch.stack([number // self.cells**2, number // self.cells % self.cells, number % self.cells], -1)
        places = (corner + _uniform(corner.shape, generator, self.level)) / self.cells
        found, _ = radiance.density(places)
        fresh = self.level.clone()
        fresh[number] = self.decay * self.level[number]
        self.level.copy_(fresh.scatter_reduce(0, number, found.to(fresh.dtype), "amax"))
        self.occupied.copy_(self.level >= self.level.mean().clamp(max=self.threshold))


def _rays(inside: Bool[Tensor, "R N"], most: int | None) -> int:
    """How many rays, the first ones, have no more places together; at least one."""
    return len(inside) if most is None else max(1, int((inside.sum(-1).cumsum(0) <= most).sum()))


def surroundings(config: RadianceConfig) -> int:
    """Parameters of a radiance field beside its field: those of the colour, and of what is behind."""
    around = (config.degree + 1) ** 2
    count = network_size(config.features + around * config.views, _layer(config.width))
    return count + (network_size(around, _layer(config.width // 2 or 1)) if config.background == "learned" else 0)


def crossing(
    origin: Float[Tensor, "R 3"], direction: Float[Tensor, "R 3"]
) -> tuple[Float[Tensor, "R"], Float[Tensor, "R"]]:
    """How far along a ray the cube [0, 1]^3 begins, from the origin on, and ends; equal where the ray misses it."""
    slow = direction.abs() < 1e-9
    steady = torch.where(slow, torch.full_like(direction, 1e-9).copysign(direction), direction)
    a, b = -origin / steady, (1 - origin) / steady
    near = torch.minimum(a, b).amax(-1).clamp_min(0)
    return near, torch.maximum(torch.maximum(a, b).amin(-1), near)


def sections(near: Float[Tensor, "R"], far: Float[Tensor, "R"], count: int) -> Float[Tensor, "R count1"]:
    """The ``count + 1`` edges of equal sections of each ray."""
    part = torch.linspace(0, 1, count + 1, dtype=near.dtype, device=near.device)
    return near[:, None] + (far - near)[:, None] * part


def weights(
    density: Float[Tensor, "R N"], length: Float[Tensor, "R N"]
) -> tuple[Float[Tensor, "R N"], Float[Tensor, "R"]]:
    """``w_i = (1 - exp(-sigma_i l_i)) exp(-sum_{j<i} sigma_j l_j)``, and what is left, ``1 - sum_i w_i``."""
    thick = density * length
    through = torch.exp(-torch.cumsum(thick, -1))
    before = torch.cat([torch.ones_like(through[:, :1]), through[:, :-1]], -1)
    return before * -torch.expm1(-thick), through[:, -1]


def resampled(
    edges: Float[Tensor, "R N1"], weight: Float[Tensor, "R N"], count: int, floor: float = 0.01
) -> Float[Tensor, "R M1"]:
    """Edges of ``count`` sections that hold equal weight each, from the first edge to the last.

    floor: a share of the weight that is spread over all sections evenly, so that none is forgotten.
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


def growing(z: Tensor) -> Tensor:
    """``exp(z)``, and from STEEPEST on the straight line that continues it: finite slopes for every number."""
    top = z.clamp(max=STEEPEST)
    return torch.exp(top) * (1 + (z - top))


def _layer(width: int) -> FieldConfig:
    return FieldConfig(outputs=3, width=width, depth=1)


def _two_layers(inputs: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, 3))


def _uniform(shape: torch.Size, generator: torch.Generator, like: Tensor) -> Tensor:
    """Numbers from 0 to 1, drawn on the CPU: every device has the same."""
    return torch.rand(shape, generator=generator, dtype=like.dtype).to(like.device)
