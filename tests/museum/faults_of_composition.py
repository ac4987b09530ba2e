"""Faults of schemes made of parts, of grids and of graphs. An exhibit differs from a healthy scheme in a few lines."""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor, nn

from posenc.kernels.pairs import both_placed, distances
from posenc.positions import Positions
from posenc.scheme import At, Claims, Scheme
from posenc.schemes.causal_nope import CausalNoPE
from posenc.schemes.learned import Learned


class Near(Scheme):
    """``|p_j - p_i| <= reach``: a query looks at keys near by."""

    examples = ({"reach": 3.0}, {"reach": 9.0})

    def __init__(self, reach: float) -> None:
        super().__init__()
        self.reach, self.claims = reach, dataclasses.replace(CausalNoPE().claims)

    def prepare(self, pos: Positions) -> Positions:
        return self._take(pos)

    def relate(self, where_q: Positions, where_k: Positions) -> Tensor:
        near, placed = distances(where_q, where_k).abs() <= self.reach, both_placed(where_q, where_k)
        return near if placed is None else near | ~placed

    def mask(self, pair: Tensor) -> Tensor:
        return pair

    def define_mask(self, at: At) -> bool:
        return bool((at.k_pos[at.j, 0] - at.q_pos[at.i, 0]).abs() <= self.reach)


class Window(Scheme):
    """``0 <= p_i - p_j <= reach``: a causal mask and a near one."""

    examples = ({"reach": 3.0}, {"reach": 9.0})

    def __init__(self, reach: float) -> None:
        super().__init__()
        self.parts = nn.ModuleList([CausalNoPE(), Near(reach)])
        self.claims = self.parts[0].claims

    def prepare(self, pos: Positions) -> Positions:
        return self._take(pos)

    def relate(self, where_q: Positions, where_k: Positions) -> list[Tensor]:
        return [part.mask(part.relate(where_q, where_k)) for part in self.parts]

    def mask(self, pair: list[Tensor]) -> Tensor:
        return pair[0] & pair[1]

    def define_mask(self, at: At) -> bool:
        return all(part.define_mask(at) for part in self.parts)


class TheLastMaskWins(Window):
    """Made up after SDPA, whose `is_causal` and `attn_mask` exclude each other: here the second replaces the first."""

    caught_by = "definition.attention_equals_its_definition"

    def mask(self, pair: list[Tensor]) -> Tensor:
        return pair[1]


class EitherMaskWillDo(Window):
    """Made up after masks whose True means hidden: joined as those are, two masks show what either of them shows."""

    caught_by = "definition.attention_equals_its_definition"

    def mask(self, pair: list[Tensor]) -> Tensor:
        return pair[0] | pair[1]


class APartIsSharedByAll(Window):
    """diffrax's module-level RoPE cache, whose key forgets an argument: the first part built serves all instances."""

    caught_by = "options.every_example_differs_from_the_others"
    made: dict[str, Near] = {}  # noqa: RUF012 (shared by every instance: the fault itself)

    def __init__(self, reach: float) -> None:
        super().__init__(reach)
        self.parts[1] = self.made.setdefault("near", Near(reach))


class SideBySide(Scheme):
    """``e_p = [E^1_p | E^2_p]``: two tables, the second of them ``rows`` long."""

    examples = ({"rows": 12}, {"rows": 18})

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList([Learned(4, 24), Learned(6, rows)])
        self.claims = dataclasses.replace(self.parts[1].claims)

    def reset_parameters(self) -> None:
        for part in self.parts:
            part.reset_parameters()

    @property
    def out_dim(self) -> int:
        return 10

    def prepare(self, pos: Positions) -> list[object]:
        return [part.prepare(self._take(pos)) for part in self.parts]

    def embed(self, where: list) -> Tensor:
        return torch.cat([part.embed(w) for part, w in zip(self.parts, where, strict=True)], -1)

    def define_embed(self, p: Tensor) -> Tensor:
        return torch.cat([part.define_embed(p) for part in self.parts])


class TheFirstPartSpeaksForAll(SideBySide):
    """Made up for the check: a wrapper hands on the claims of the part it wraps first."""

    caught_by = "claims.range_is_as_claimed"

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.claims = self.parts[0].claims


class PartsInAPlainList(SideBySide):
    """torch's oldest trap: modules in a list are not submodules, so nothing of them is trained, moved or saved."""

    caught_by = "claims.learning_is_as_claimed"

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        parts = list(self.parts)
        del self.parts
        self.parts = parts


class Below(Scheme):
    """``x_(r, c) + w x_(r+1, c)`` on a picture, nothing below its last row."""

    examples = ({},)

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(1))
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=True,
            range=None,
            axes=2,
            sites=frozenset({"mix"}),
            sharing="layer",
            cacheable=False,
        )

    def reset_parameters(self) -> None:
        nn.init.ones_(self.w)

    def prepare(self, pos: Positions) -> tuple[int, Tensor | None]:
        if self._take(pos).lattice is None:
            raise ValueError("Below looks at neighbours and needs a picture, as grid(h, w).")
        return self.width(pos), pos.placed

    def width(self, pos: Positions) -> int:
        return pos.lattice[1]

    def mix(self, x: Tensor, where: tuple[int, Tensor | None]) -> Tensor:
        width, placed = where
        first = 0 if placed is None else int((~placed).sum())
        below = nn.functional.pad(x[:, first + width :], (0, 0, first, min(width, x.shape[1] - first)))
        return x + self.w.to(x.dtype) * below

    def define_mix(self, x: Tensor, pos: Positions, n: int) -> Tensor:
        height, width = pos.lattice
        return x[n] + (self.w * x[n + width] if n // width + 1 < height else 0)


class PicturesAreSquare(Below):
    """rope-vit (``sqrt(N - 1)``), timm#2737: a picture is taken to be as wide as the root of its tokens."""

    caught_by = "definition.mixing_equals_its_definition"

    def width(self, pos: Positions) -> int:
        return math.isqrt(math.prod(pos.lattice))


class Magnitude(Scheme):
    """``e_n = v_n^2``, whatever the sign of an eigenvector."""

    examples = ({},)

    def __init__(self) -> None:
        super().__init__()
        self.claims = Claims(
            translation="none",
            isometric=False,
            learned=False,
            range=None,
            axes=2,
            sites=frozenset({"embed"}),
            sharing="model",
            cacheable=True,
        )

    @property
    def out_dim(self) -> int:
        return 2

    def prepare(self, pos: Positions) -> Tensor:
        rows = self.signed(self._take(pos).precise()).to(pos.table_dtype)
        return rows if pos.placed is None else rows * pos.placed[..., None]

    def signed(self, v: Tensor) -> Tensor:
        return v * v

    def embed(self, where: Tensor) -> Tensor:
        return where

    def define_embed(self, p: Tensor) -> Tensor:
        return p**2


class SignOfTheTokensAtHand(Magnitude):
    """Made up after libraries that fix a sign by the largest entry: of a part of a graph, another one is largest."""

    caught_by = "claims.caching_is_as_claimed"

    def signed(self, v: Tensor) -> Tensor:
        return v * v.amax(-2, keepdim=True) if v.shape[-2] else v
