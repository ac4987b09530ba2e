"""Sites of vision models: the grid, the widths and the positions that a scheme gets in each layer.

An image of ``h x w`` patches is a grid in row-major order. A scheme of two axes reads the position ``(row, column)`` of
a patch. A scheme of one axis reads its number ``row w + column``. A reduced key, as in PVT, stands for a cell of ``s x
s`` patches; by default its position is the cell's center, ``s i + (s - 1) / 2``.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from posenc.lookup.scheme_text import Specification, build
from posenc.positions import Positions
from posenc.scheme import Pair, Scheme, Where
from posenc.schemes.nope import NoPE

View = Literal["grid", "unit", "line", "counted", "pixels"]
"""Position of a patch (a position view).

"grid": row and column. "unit": the patch's center, with the image as the unit square. "line": the n-th patch stands at
``(0, n)``, a sequence for a scheme of two axes. "counted": the n-th token, counted from the class token, stands at
``(n // w, n % w)`` with w patches per row. "pixels": the same with w pixels per row, so that all tokens of a usual ViT
stand in row 0. The last two are the views of the released code, github BoyangL1/gridpe-vision."""

Keys = Literal["centre", "corner"]
"""Position of a reduced key: the center of its ``s x s`` patches, or ``s i + s // 2`` as in the released code."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Site:
    """Properties of a layer that a scheme may depend on.

    Attributes:
        layer: number of the layer, counted over all stages.
        stage: number of the stage.
        first: whether it is the first layer of its stage.
        embeds: whether embedding rows are added in this layer.
        dim: model width.
        heads: number of attention heads.
        shape: height and width of the grid of patches.
        before: number of tokens that are counted as positions before the patches.
    """

    layer: int
    stage: int
    first: bool
    embeds: bool
    dim: int
    heads: int
    shape: tuple[int, int]
    before: int = 0

    def scheme_arguments(self, kind: type[Scheme]) -> dict[str, Any]:
        """Return the constructor arguments of a scheme class that follow from the site, for ``scheme_text.build``.

        Args:
            kind: the scheme's class.

        Returns:
            Arguments by name, such as ``dim``, ``head_dim``, ``max_len`` and ``extent``.
        """
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
            # per axis, or over all tokens in a row for a scheme of one axis
            "extent": float(side if "axes" in inspect.signature(kind).parameters else tokens),
        }


def at_sites(
    specification: Specification, sites: Sequence[Site], *, first_only: bool = False
) -> Callable[[int], Scheme]:
    """Make a factory ``layer -> scheme`` that builds one scheme per stage, or per layer if the scheme claims that.

    Args:
        specification: the scheme as text, parsed.
        sites: the sites of all layers, as ``VisionConfig.sites``.
        first_only: whether only the first layer of a stage gets the scheme, as in the released GridPVT. This always
            holds for a scheme whose only site is "mix", as in CPVT. The other layers get ``NoPE``.

    Returns:
        A function from the number of a layer to its scheme.
    """
    made, nothing = {}, NoPE()

    def schemes(layer: int) -> Scheme:
        site = sites[layer]
        before = made.get(site.stage)
        only = frozenset() if before is None else before.claims.sites
        if before is not None and not site.first and (first_only or only == {"mix"}):
            return nothing
        if before is not None and not before.claims.per_layer:
            return before
        made[site.stage] = build(specification, site.scheme_arguments)
        return made[site.stage]

    return schemes


def without_repetition(made: Sequence[Scheme]) -> tuple[list[Scheme], list[int]]:
    """Remove repeated schemes.

    Args:
        made: the scheme of each layer.

    Returns:
        The schemes without repetition, and for each layer the index of its scheme among them.
    """
    unique = list({id(scheme): scheme for scheme in made}.values())
    return unique, [next(i for i, one in enumerate(unique) if one is scheme) for scheme in made]


def refuse_width(scheme: Scheme, *, dim: int, head_dim: int, model: str, projects: bool = False) -> None:
    """Check that a scheme's widths fit a model.

    Args:
        scheme: the scheme.
        dim: model width.
        head_dim: width of a head.
        model: name of the model for the error message.
        projects: whether the model projects embedding rows to its width.

    Raises:
        ValueError: embedding rows or heads of another width.
    """
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


def patch_positions(
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
    """Return the positions of the patches of a grid.

    Args:
        shape: height and width of the grid of patches.
        axes: number of axes that the scheme reads; None for any.
        view: position of a patch.
        before: number of tokens before the patches, such as a class token. They have no position, except in the views
            "counted" and "pixels".
        pixels: width of the image in pixels, for the view "pixels".
        cells: side of a cell of patches that share one position, for reduced keys.
        keys: position of a reduced key in its cell.
        device: device of the positions.

    Returns:
        Positions of all tokens, ``before`` of them first.
    """
    if view in ("counted", "pixels") and cells == 1:
        count = torch.arange(before + shape[0] * shape[1], device=device)
        wide = shape[1] if view == "counted" else pixels
        coords = count[:, None] if axes == 1 else torch.stack([count // wide, count % wide], -1)
        full = (len(count),) if axes == 1 else shape if view == "counted" and not before else None
        return Positions(coords, lattice=full)
    middle = (cells - 1) / 2 if keys == "centre" else cells // 2
    middle = int(middle) if middle == int(middle) else middle  # integer positions stay integers
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


class PreparedScheme(NamedTuple):
    """A scheme with its prepared positions for one forward pass.

    Attributes:
        scheme: the scheme.
        queries: prepared positions of the queries.
        keys: prepared positions of the keys.
        pair: prepared values of (query, key) pairs.
        placed: which query tokens have a position, as in ``Positions``; None for all.
        made: results that layers with this scheme share, such as its bias.
    """

    scheme: Scheme
    queries: Where
    keys: Where
    pair: Pair
    placed: Tensor | None
    made: dict[str, Any]

    @classmethod
    def at(cls, scheme: Scheme, queries: Positions, keys: Positions | None) -> PreparedScheme:
        """Prepare a scheme for positions of queries and keys.

        Args:
            scheme: the scheme.
            queries: positions of the queries.
            keys: positions of the keys; None for the same as the queries.

        Returns:
            The prepared scheme.
        """
        scheme = scheme.for_texts(queries) if keys is None else scheme.for_texts(queries, keys)
        where = scheme.prepare(queries)
        if keys is None:
            return cls(scheme, where, where, scheme.relate(where, where), queries.placed, {})
        if not scheme.claims.sites - {"embed", "mix"}:  # these sites do not depend on the positions of keys
            return cls(scheme, where, where, None, queries.placed, {})
        where_k = scheme.prepare(keys)
        return cls(scheme, where, where_k, scheme.relate(where, where_k), queries.placed, {})
