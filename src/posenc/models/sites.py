"""Where a model of pictures offers its sites to a scheme: on which grid, at which width, and at which places.

A picture of ``h x w`` patches is a grid in row-major order. A scheme of two axes reads ``(row, column)``, one of one
axis the patch's number ``row w + column``. Keys that stand for a cell of ``s x s`` patches, as those of PVT, stand at
its centre, ``s i + (s - 1) / 2``.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from posenc.positions import Positions
from posenc.scheme import Pair, Scheme, Where
from posenc.schemes.nope import NoPE
from posenc.specification import Specification, build, find

View = Literal["grid", "unit", "line", "counted", "pixels"]
"""What a patch's position is. grid: its row and column. unit: its centre, the picture being the unit square. line: the
n-th patch stands at ``(0, n)``, a sequence to a scheme of two axes. counted:
the n-th token from the class token on stands at ``(n // w, n % w)``, w patches to a row; pixels: w pixels to a row, so
that all tokens of a usual ViT stand in the first one. The last two are what github BoyangL1/gridpe-vision runs."""

Keys = Literal["centre", "corner"]
"""Where a key of ``s x s`` patches stands: at their centre, or at ``s i + s // 2``, as that code has it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Site:
    """What a scheme may know of a layer. shape: its grid of patches. first: of its stage. embeds: adds rows.
    before: tokens that are counted before the patches."""

    layer: int
    stage: int
    first: bool
    embeds: bool
    dim: int
    heads: int
    shape: tuple[int, int]
    before: int = 0

    def known(self, kind: type[Scheme]) -> dict[str, Any]:
        """Constructor arguments that follow from the site, for ``specification.build``."""
        tokens, side = self.before + self.shape[0] * self.shape[1], max(self.shape)
        return {
            "dim": self.dim,
            "heads": self.heads,
            "head_dim": self.dim // self.heads,
            "axes": 2,
            "max_len": tokens,
            "max_distance": max(tokens - 1, 16),
            "npos_max": tokens,
            "n": side,
            "window": self.shape,
            # along each axis, or along the row of all tokens for what reads one axis
            "extent": float(side if "axes" in inspect.signature(kind).parameters else tokens),
        }


def at_sites(
    specification: Specification, sites: Sequence[Site], *, first_only: bool = False
) -> Callable[[int], Scheme]:
    """A factory ``layer -> scheme``: one a stage, or one a layer where the scheme claims to be.

    first_only: nothing after the first layer of a stage, as in the released GridPVT; a scheme that only mixes always
    stands so, as in CPVT. Layers in which a scheme would do nothing get none.
    """
    kind, made, nothing = find(specification.scheme), {}, NoPE()

    def schemes(layer: int) -> Scheme:
        site = sites[layer]
        before = made.get(site.stage)
        only = frozenset() if before is None else before.claims.sites
        if before is not None and not site.first and (first_only or only == {"mix"}):
            return nothing
        if before is not None and not before.claims.per_layer:
            return before
        made[site.stage] = build(specification, site.known(kind))
        return made[site.stage]

    return schemes


def shared(made: Sequence[Scheme]) -> tuple[list[Scheme], list[int]]:
    """The schemes of the layers without repetition, and which of them each layer has."""
    unique = list({id(scheme): scheme for scheme in made}.values())
    return unique, [next(i for i, one in enumerate(unique) if one is scheme) for scheme in made]


def refuse_width(scheme: Scheme, *, dim: int, head_dim: int, model: str, projects: bool = False) -> None:
    """Raises ValueError for a scheme whose rows or heads are not as wide as the model's."""
    name = type(scheme).__name__
    if not projects and "embed" in scheme.claims.sites and scheme.out_dim != dim:
        raise ValueError(
            f"{name} makes rows of width {scheme.out_dim} and the {model} adds them to tokens of width {dim}. Build it "
            f"with dim={dim}."
        )
    if scheme.head_width not in (None, head_dim):
        raise ValueError(
            f"{name} acts on heads of width {scheme.head_width} and the {model}'s have {head_dim}. Build it for a head "
            f"width of {head_dim}."
        )


def places(
    shape: tuple[int, int],
    axes: int | None,
    view: View = "grid",
    *,
    before: int = 0,
    pixels: int = 0,
    cells: int = 1,
    keys: Keys = "centre",
    device: torch.device | str | None = None,
) -> Positions:
    """Where the patches of a grid stand, for a scheme of so many axes, after ``before`` tokens without a place.

    pixels: the picture's width, for the view of that name. cells: one position for every ``cells x cells`` patches.
    """
    if view in ("counted", "pixels") and cells == 1:
        count = torch.arange(before + shape[0] * shape[1], device=device)
        wide = shape[1] if view == "counted" else pixels
        coords = count[:, None] if axes == 1 else torch.stack([count // wide, count % wide], -1)
        full = (len(count),) if axes == 1 else shape if view == "counted" and not before else None
        return Positions(coords, lattice=full)
    middle = (cells - 1) / 2 if keys == "centre" else cells // 2
    middle = int(middle) if middle == int(middle) else middle  # whole places stay integers
    rows, columns = (torch.arange(side // cells, device=device) * cells + middle for side in shape)
    lattice: tuple[int, ...] = (len(rows), len(columns))
    grid = torch.stack(torch.meshgrid(rows, columns, indexing="ij"), -1).flatten(0, 1)
    if axes == 1 or view == "line":
        grid, lattice = grid[:, :1] * shape[1] + grid[:, 1:], (len(grid),)
    if axes != 1 and view == "line":
        grid, lattice = torch.cat([torch.zeros_like(grid), grid], -1), (1, len(grid))
    if view == "unit":
        size = [shape[0] * shape[1]] if axes == 1 else shape
        grid = (grid + 0.5) / torch.tensor(size, device=device)
    if not before:
        return Positions(grid, lattice=lattice)
    placed = torch.arange(before + len(grid), device=device) >= before
    return Positions(torch.cat([grid.new_zeros(before, grid.shape[1]), grid]), placed, lattice)


class Placed(NamedTuple):
    """A scheme with what it prepared for one forward pass: for queries, for keys, and for their pairs; and
    what the layers that have it made already."""

    scheme: Scheme
    queries: Where
    keys: Where
    pair: Pair
    placed: Tensor | None
    made: dict[str, Any]

    @classmethod
    def at(cls, scheme: Scheme, queries: Positions, keys: Positions | None) -> Placed:
        """keys: None where they stand where the queries do."""
        where = scheme.prepare(queries)
        if keys is None:
            return cls(scheme, where, where, scheme.relate(where, where), queries.placed, {})
        if not scheme.claims.sites - {"embed", "mix"}:  # nothing in it asks where keys stand
            return cls(scheme, where, where, None, queries.placed, {})
        where_k = scheme.prepare(keys)
        return cls(scheme, where, where_k, scheme.relate(where, where_k), queries.placed, {})
