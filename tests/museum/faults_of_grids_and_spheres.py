"""Faults of grid-cell waves and of encodings of places on the globe."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from posenc.positions import Positions
from posenc.scheme import Claims, Scheme
from posenc.schemes.grid_rotate import GridRotate, Turns
from posenc.schemes.laplacian import Laplacian
from posenc.schemes.sc_pe import SCPE

CLAIMS = Claims(
    translation="exact",
    isometric=True,
    learned=False,
    range=None,
    axes=2,
    sites=frozenset({"q", "k"}),
    sharing="model",
    cacheable=True,
)


class Waves(Scheme):
    """Three pairs of channels turned by ``u_i . p / wavelength``, three directions 120 degrees apart."""

    examples = ({"wavelength": 1.0}, {"wavelength": 5.0})

    def __init__(self, wavelength: float) -> None:
        super().__init__()
        self.wavelength, self.claims = wavelength, CLAIMS

    @property
    def head_width(self) -> int:
        return 6

    def directions(self) -> Tensor:
        angle = 2 * math.pi / 3 * torch.arange(3).double()
        return torch.stack([angle.cos(), angle.sin()], -1)

    def prepare(self, pos: Positions) -> Tensor:
        """``exp(j angle)``, ``(.., 1, N, 3)``."""
        angle = self._take(pos).precise() @ self.directions().T / self.wavelength
        angle = angle if pos.placed is None else angle * pos.placed[..., None]
        return torch.polar(torch.ones_like(angle), angle).unsqueeze(-3)

    def transform(self, x: Tensor, where: Tensor, site: str) -> Tensor:
        if site not in ("q", "k"):
            return x
        z = torch.view_as_complex(x.double().unflatten(-1, (3, 2)).contiguous()) * where
        return torch.view_as_real(z).flatten(-2).to(x.dtype)

    def rerotate(self, x: Tensor, where_from: Tensor, where_to: Tensor, site: str = "k") -> Tensor:
        return self.transform(x, where_to * where_from.conj(), site)

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        row = []
        for i in range(3 if site in ("q", "k") else 0):
            angle = p[0] * math.cos(2 * math.pi * i / 3) + p[1] * math.sin(2 * math.pi * i / 3)
            cos, sin = torch.cos(angle / self.wavelength), torch.sin(angle / self.wavelength)
            row += [x[2 * i] * cos - x[2 * i + 1] * sin, x[2 * i + 1] * cos + x[2 * i] * sin]
        return torch.stack(row) if row else x


class DirectionsDrawnAtEveryPass(Waves):
    """gridpe-vision: wave directions are drawn anew at every forward pass, so nothing is learnt of any of them."""

    caught_by = "state.using_it_changes_nothing"

    def directions(self) -> Tensor:
        turn = 2 * math.pi * torch.rand(())
        return super().directions() @ torch.tensor([[turn.cos(), -turn.sin()], [turn.sin(), turn.cos()]]).double()


class TheConjugateIsMissing(Waves):
    """gridpe-vision, complex: Re q Re k - Im q Im k, so logits depend on the sum of positions and not on the offset."""

    caught_by = "claims.translation_is_as_claimed"

    def transform(self, x: Tensor, where: Tensor, site: str) -> Tensor:
        return super().transform(x, where.conj() if site == "q" else where, site)

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        return super().define_transform(x, -p if site == "q" else p, site, head)


class ASumOfWavesAsARotation(Waves):
    """gridpe-vision, rotate: (Re g, Im g) of three waves stand for (cos, sin), and |g| is not 1 but .07 to 2.7."""

    caught_by = "claims.isometry_is_as_claimed"

    def prepare(self, pos: Positions) -> Tensor:
        where = super().prepare(pos)
        return where.sum(-1, keepdim=True).expand_as(where)


class CrossTermsAreForgotten(Waves):
    """GridPE (arXiv 2406.07049, eq. 22): a product of sums of waves is called a function of the offset; it is not."""

    caught_by = "claims.translation_is_as_claimed"

    def __init__(self, wavelength: float) -> None:
        super().__init__(wavelength)
        self.claims = dataclasses.replace(CLAIMS, isometric=False)

    def prepare(self, pos: Positions) -> Tensor:
        return super().prepare(pos).sum(-1, keepdim=True)


class ANetworkAlongTheTokens(Waves):
    """gridpe-vision, deep: the network that maps the code is a layer over the tokens and not over the channels."""

    caught_by = "placement.the_order_of_tokens_does_not_matter"

    def prepare(self, pos: Positions) -> Tensor:
        layer = torch.randn(pos.count, pos.count, generator=torch.Generator().manual_seed(0)).to(torch.complex128)
        return layer @ super().prepare(pos)


# the globe ---------------------------------------------------------------------------------------------------------


class Globe(Scheme):
    """The unit vector of (longitude, latitude) in degrees, at two scales of the angles."""

    examples = ({"scale": 0.5}, {"scale": 0.25})

    def __init__(self, scale: float) -> None:
        super().__init__()
        sites = frozenset({"embed"})
        self.scale, self.out = scale, 6
        self.claims = dataclasses.replace(CLAIMS, translation="none", sites=sites)

    @property
    def out_dim(self) -> int:
        return self.out

    def radians(self, pos: Positions) -> Tensor:
        return pos.precise() * (math.pi / 180)

    def rows(self, lon: Tensor, lat: Tensor) -> Tensor:
        return torch.stack([lat.sin(), lat.cos() * lon.cos(), lat.cos() * lon.sin()], -1)

    def prepare(self, pos: Positions) -> Tensor:
        lon, lat = self.radians(self._take(pos)).unbind(-1)
        rows = torch.cat([self.rows(lon, lat), self.rows(lon / self.scale, lat / self.scale)], -1).to(pos.table_dtype)
        return rows if pos.placed is None else rows * pos.placed[..., None]

    def embed(self, where: Tensor) -> Tensor:
        return where

    def define_embed(self, p: Tensor) -> Tensor:
        row = []
        for scale in (1.0, self.scale):
            a, b = torch.deg2rad(p[0]) / scale, torch.deg2rad(p[1]) / scale
            row += [torch.sin(b), torch.cos(b) * torch.cos(a), torch.cos(b) * torch.sin(a)]
        return torch.stack(row)


class DegreesIntoTheSine(Globe):
    """satclip: the factor pi / 180 is commented out, and degrees go into sines and cosines."""

    caught_by = "definition.embedding_equals_its_definition"

    def radians(self, pos: Positions) -> Tensor:
        return pos.precise()


class EveryFeatureTwice(Globe):
    """satclip: the frequency axis is repeated twice, so SphereC has 6 numbers a scale, each of them double."""

    caught_by = "definition.embedding_equals_its_definition"

    def rows(self, lon: Tensor, lat: Tensor) -> Tensor:
        return super().rows(lon, lat).repeat_interleave(2, -1)


class LatitudeComesFirst(Globe):
    """geoclip against torchspatial: (lat, lon) is read where (lon, lat) is passed."""

    caught_by = "definition.embedding_equals_its_definition"

    def rows(self, lon: Tensor, lat: Tensor) -> Tensor:
        return super().rows(lat, lon)


class PlacesGetNoGradient(Globe):
    """torchspatial, nerfstudio's SHEncoding: rows are made in numpy or under no_grad, and places cannot be learnt."""

    caught_by = "definition.embedding_equals_its_definition"

    def rows(self, lon: Tensor, lat: Tensor) -> Tensor:
        return super().rows(lon.detach(), lat.detach())


class Sectoral(Scheme):
    """``N cos^l(lat) [cos, sin](l lon)``, the real harmonics of degree l and order l."""

    examples = ({"degree": 3}, {"degree": 200})

    def __init__(self, degree: int) -> None:
        super().__init__()
        sites = frozenset({"embed"})
        self.degree = degree
        self.claims = dataclasses.replace(CLAIMS, translation="none", isometric=False, sites=sites)

    @property
    def out_dim(self) -> int:
        return 2

    def size(self) -> float:
        """``sqrt((2l+1)!) / (2^l l! sqrt(2 pi))``, by logarithms."""
        n = self.degree
        return math.exp(math.lgamma(2 * n + 2) / 2 - n * math.log(2) - math.lgamma(n + 1)) / math.sqrt(2 * math.pi)

    def prepare(self, pos: Positions) -> Tensor:
        lon, lat = self._take(pos).precise().unbind(-1)
        around = torch.stack([(self.degree * lon).cos(), (self.degree * lon).sin()], -1)
        rows = (self.size() * lat.cos()[..., None] ** self.degree * around).to(pos.table_dtype)
        return rows if pos.placed is None else rows * pos.placed[..., None]

    def embed(self, where: Tensor) -> Tensor:
        return where

    def define_embed(self, p: Tensor) -> Tensor:
        size = math.sqrt(1 / (2 * math.pi))
        for n in range(1, self.degree + 1):
            size *= math.sqrt((2 * n + 1) / (2 * n))
        z = torch.cos(p[1]) * torch.exp(1j * p[0])
        power = torch.ones_like(z)
        for _ in range(self.degree):
            power = power * z
        return size * torch.stack([power.real, power.imag])


class FactorialsOverflow(Sectoral):
    """locationencoder#1: closed forms multiply factorials, which overflow, and harmonics of high degree are NaN."""

    caught_by = "claims.range_is_as_claimed"

    def size(self) -> float:
        n = torch.tensor(float(self.degree), dtype=torch.float64)
        down = 2**n * torch.lgamma(n + 1).exp() * math.sqrt(2 * math.pi)
        return float(torch.lgamma(2 * n + 2).exp().sqrt() / down)


class TheWrongConstant(Sectoral):
    """locationencoder before 2024: one constant of the table of harmonics is wrong, here by sqrt(2)."""

    caught_by = "definition.embedding_equals_its_definition"

    def size(self) -> float:
        return super().size() * math.sqrt(2)


class ANetworkIsTakenForRelative(SCPE):
    """Once ours: a random readout's mean hardly changes when all moves; together they show that it does."""

    caught_by = "claims.translation_is_as_claimed"
    examples = ({"n": 28, "hidden": (128,)},)

    def __init__(self, n: int, hidden: Sequence[int]) -> None:
        super().__init__(n, hidden=hidden)
        self.claims = dataclasses.replace(self.claims, translation="expected")


class DrawsOfNobodysCount(GridRotate):
    """github BoyangL1/gridpe-vision: directions of the global generator, and no checkpoint knows which is next."""

    caught_by = "state.draws_are_counted"
    examples = ({"head_dim": 12, "literal": True},)

    def prepare(self, pos: Positions) -> Turns:
        assert self.released is not None
        self.released.drawn.fill_(int(torch.randint(10**6, ())))
        return super().prepare(pos)


class DrawsAreCountedInFloats(Laplacian):
    """A mutant of this package that passed: in bfloat16 the count stays at 256, and the signs of a node at one draw."""

    caught_by = "state.draws_are_counted"
    examples = ({"dim": 12, "axes": 3, "signs": "random"},)

    def __init__(self, dim: int, axes: int, signs: str) -> None:
        super().__init__(dim, axes, signs=signs)
        self.drawn = torch.zeros(())
