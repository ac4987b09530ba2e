"""Where things are: one small value that every encoding reads.

The legend of shapes, used in every signature of the project:

    B batch   H heads   Q queries   K keys   N tokens or samples   P axes of positions   D channels of one head

Positions are real numbers, one vector of ``P`` coordinates a token, and the axes stand in the order of the
data's shape: on a picture ``(row, column)``. They start at 0 and count tokens unless a builder says otherwise.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from jaxtyping import Bool, Shaped
from torch import Tensor
from torch._C._functorch import maybe_current_level
from torch.utils import _pytree as pytree

SMALL_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.uint16, torch.uint32, torch.uint64)
SMALL_FLOATS = (torch.float16, torch.bfloat16)
WITHOUT_FLOAT64 = ("mps",)
MOST_IN_FLOAT32 = 2**23  # from here on it has no halves
"""Devices that cannot count in float64."""


@dataclasses.dataclass(frozen=True, eq=False)
class Positions:
    """``coords[.., n, p]`` is where token ``n`` stands on axis ``p``.

    coords: ``(N, P)`` for every sample of a batch alike, or ``(B, N, P)``; any real dtype, of which half precision is
        kept as float32 and small integers as int64; gradients flow through it.
    placed: ``(N,)`` or ``(B, N)``, False for tokens without a place (class token, registers, mask, padding):
        every scheme treats those neutrally (angle 0, factor 1, a row of zeros, bias 0).
    lattice: the static shape where the placed tokens form a full grid in row-major order, for schemes that need
        neighbours.

    Raises ValueError for another rank, a dtype that is not real, NaN or infinite coordinates, and for ``placed`` or
    ``lattice`` that do not fit.
    """

    coords: Shaped[Tensor, "*B N P"]
    placed: Bool[Tensor, "*placed N"] | None = None
    lattice: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.coords, Tensor) or self.coords.is_nested:
            told = "a nested tensor" if isinstance(self.coords, Tensor) else type(self.coords).__name__
            raise ValueError(
                f"positions are one tensor (N, P) or (B, N, P); got {told}. For a list write torch.tensor(..); for "
                "samples of different lengths pad them, with placed=False where there is no token."
            )
        if self.coords.dtype in SMALL_INTEGERS:  # a distance between two of them would wrap round
            object.__setattr__(self, "coords", self.coords.long())
        if self.coords.dtype in SMALL_FLOATS:  # and one between two of these would be rounded
            object.__setattr__(self, "coords", self.coords.float())
        shape = tuple(self.coords.shape)
        if len(shape) not in (2, 3):
            raise ValueError(
                f"positions have shape (N, P) or (B, N, P), tokens by axes; got {shape}. "
                "For positions on one axis write sequence(n), or coords[..., None]."
            )
        if self.coords.dtype == torch.bool or self.coords.is_complex():
            raise ValueError(f"positions are real numbers; got {self.coords.dtype}. Pass integers or floats.")
        if self.placed is not None and self.placed.dtype != torch.bool:
            raise ValueError(f"`placed` is True or False for each token; got {self.placed.dtype}. Write placed.bool().")
        if self.placed is not None and not _fits(self.placed, shape):
            raise ValueError(
                f"`placed` says for each of the {shape[-2]} tokens whether it has a place; "
                f"got shape {tuple(self.placed.shape)}. Give it shape {shape[:-1]}."
            )
        if self.lattice is not None and self.placed is None and math.prod(self.lattice) != shape[-2]:
            raise ValueError(
                f"a lattice of shape {self.lattice} has {math.prod(self.lattice)} points; "
                f"there are {shape[-2]} positions. Use grid{self.lattice}, or lattice=None."
            )
        if self.coords.is_floating_point() and readable(self.coords):
            _refuse_not_finite(self.coords)

    @property
    def axes(self) -> int:
        return self.coords.shape[-1]

    @property
    def count(self) -> int:
        return self.coords.shape[-2]

    @property
    def batched(self) -> bool:
        """Whether samples of a batch differ in where, or whether, their tokens stand."""
        return self.coords.dim() == 3 or (self.placed is not None and self.placed.dim() == 2)

    def __add__(self, shift: Tensor | float | Sequence[float]) -> Positions:
        """Every position moved by ``shift``: a number, one number an axis, or a tensor that broadcasts to coords.

        Whole positions moved by a fraction are float32, or float64 where that would lose the place of a token.
        """
        if isinstance(shift, Sequence):
            shift = torch.as_tensor(shift, device=self.coords.device)
        return dataclasses.replace(self, coords=_moved(self.coords, shift))

    def __sub__(self, shift: Tensor | float | Sequence[float]) -> Positions:
        if isinstance(shift, Sequence):
            shift = torch.as_tensor(shift, device=self.coords.device)
        return dataclasses.replace(self, coords=_moved(self.coords, shift, torch.sub))

    def __getitem__(self, tokens: slice) -> Positions:
        """The positions of a run of tokens, as in decoding: ``pos[t : t + 1]``. A part is no longer a full grid."""
        if not isinstance(tokens, slice):
            raise ValueError(f"positions are cut by a slice of tokens, as pos[3:4]; got {tokens!r}. Or use pos.take.")
        placed = None if self.placed is None else self.placed[..., tokens]
        return Positions(self.coords[..., tokens, :], placed)

    def take(self, index: Tensor) -> Positions:
        """The positions of one token a sample, ``index (B,)``, or of several, ``(B, M)``: of what is read out."""
        index = index[:, None] if index.dim() == 1 else index
        coords, placed = self.coords, self.placed
        if coords.dim() == 3:  # of one sample for all, or of each
            coords = coords.expand(len(index), -1, -1).gather(1, index[..., None].expand(-1, -1, self.axes))
        else:
            coords = coords[index]
        if placed is not None:
            placed = placed.expand(len(index), -1).gather(1, index) if placed.dim() == 2 else placed[index]
        return Positions(coords, placed)

    def to(self, device: torch.device | str) -> Positions:
        placed = None if self.placed is None else self.placed.to(device)
        return dataclasses.replace(self, coords=self.coords.to(device), placed=placed)

    def precise(self) -> Tensor:
        """The coordinates in float64, where 10^7 times a frequency keeps its phase.

        Raises ValueError on a device that has no float64, rather than lose that phase in float32.
        """
        if self.coords.device.type in WITHOUT_FLOAT64:
            raise ValueError(
                f"angles are counted in float64, which the device {self.coords.device} does not have. Keep scheme and "
                "positions on the CPU, and move what scheme.prepare(pos) returns: torch.utils._pytree.tree_map."
            )
        return self.coords.to(torch.float64)

    @property
    def table_dtype(self) -> torch.dtype:
        """What a scheme's prepared numbers are kept in: float32, or float64 for float64 positions."""
        return torch.float64 if self.coords.dtype == torch.float64 else torch.float32


def _moved(coords: Tensor, shift: Tensor | float, move: Callable[..., Tensor] = torch.add) -> Tensor:
    fraction = isinstance(shift, float) or (isinstance(shift, Tensor) and shift.is_floating_point())
    if not fraction or coords.is_floating_point() or not readable(coords) or coords.numel() == 0:
        return move(coords, shift)
    low, high = coords.aminmax()
    far = max(-int(low), int(high)) >= MOST_IN_FLOAT32 and coords.device.type not in WITHOUT_FLOAT64
    return move(coords.double() if far else coords, shift)


def readable(values: Tensor) -> bool:
    """Whether a check may look at a tensor's values: not while compiling, on meta, or under torch.func's transforms."""
    return not (torch.compiler.is_compiling() or values.device.type == "meta" or maybe_current_level() is not None)


def _fits(placed: Tensor, shape: tuple[int, ...]) -> bool:
    alone = placed.dim() == 1 or len(shape) == 2 or placed.shape[0] == shape[0]
    return placed.dim() in (1, 2) and placed.shape[-1] == shape[-2] and alone


def _refuse_not_finite(coords: Tensor) -> None:
    if bool(torch.isfinite(coords).all()):
        return
    bad = int((~torch.isfinite(coords)).sum())
    raise ValueError(
        f"positions must be finite; {bad} of {coords.numel()} coordinates are NaN or infinite. "
        "Tokens without a place take placed=False and any finite coordinate."
    )


def as_positions(pos: Positions | Tensor) -> Positions:
    """The user's own tensor, wrapped at the door: ``(N, P)`` or ``(B, N, P)`` becomes Positions."""
    if isinstance(pos, Positions):
        return pos
    if isinstance(pos, Tensor):
        return Positions(pos)
    raise ValueError(
        f"positions are Positions or a tensor (N, P); got {type(pos).__name__}. "
        "For n tokens in a row write sequence(n); for a picture grid(height, width)."
    )


def sequence(length: int | Tensor, *, start: float = 0, device: torch.device | str | None = None) -> Positions:
    """Tokens in a row: ``pos[n] = start + n``. A tensor of position ids ``(N,)`` or ``(B, N)`` is taken as it is
    (packed documents, left padding, several time scales)."""
    if isinstance(length, Tensor):
        return Positions(_moved(length[..., None], start))
    if isinstance(length, float):
        raise ValueError(f"a sequence takes a number of tokens or a tensor of positions; got {length!r}.")
    if length < 0:
        raise ValueError(f"a sequence has at least 0 tokens; got {length}. Pass its length.")
    steps = torch.arange(length, device=device)
    return Positions(_moved(steps[:, None], start), lattice=(length,))


def grid(*shape: int, device: torch.device | str | None = None) -> Positions:
    """A full grid in row-major order, axes in the order of its shape: ``grid(h, w)[r * w + c] = (r, c)``."""
    if not shape or min(shape) < 0:
        raise ValueError(f"a grid needs a size along each axis, as grid(14, 14); got grid{shape}.")
    axes = [torch.arange(n, device=device) for n in shape]
    return Positions(torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, -2), lattice=tuple(shape))


def sphere(lon: Tensor, lat: Tensor, *, unit: Literal["degrees", "radians"] = "degrees") -> Positions:
    """Places on a globe: ``coords = (longitude, latitude)`` in radians, longitude first.

    lon, lat: ``(N,)`` or ``(B, N)``, in ``unit``; latitude within ±90 degrees.
    """
    if unit not in ("degrees", "radians"):
        raise ValueError(f"longitude and latitude come in 'degrees' or 'radians'; got {unit!r}.")
    turn = math.pi / 180 if unit == "degrees" else 1.0
    lon, lat = torch.broadcast_tensors(torch.as_tensor(lon), torch.as_tensor(lat))
    coords = torch.stack([lon, lat], -1) * turn
    if readable(coords) and bool((coords[..., 1].abs() > math.pi / 2 + 1e-6).any()):
        worst = float(lat.abs().max())
        raise ValueError(
            f"latitude lies within ±90 degrees; got {worst:g} {unit}. The order is sphere(lon, lat): exchanged?"
        )
    return Positions(coords)


def graph(edges: Tensor, *, nodes: int | None = None, axes: int = 2) -> Positions:
    """Nodes known only by their links: coordinates are the eigenvectors of the normalised graph Laplacian.

    ``L = I - D^(-1/2) A D^(-1/2)``; axis ``p`` is the eigenvector of the (p+2)-th smallest eigenvalue, scaled to unit
    root mean square, its largest entry made positive (the sign of an eigenvector means nothing). Dwivedi and Bresson
    2020, arXiv 2012.09699.

    edges: integer ``(E, 2)``, undirected. nodes: their number, if some have no edge. Raises ValueError where fewer than
    ``axes`` non-constant eigenvectors exist.
    """
    node_pairs(edges)
    low, high = (int(edges.min()), int(edges.max())) if len(edges) else (0, -1)
    count = high + 1 if nodes is None else nodes
    if low < 0 or high >= count:
        raise ValueError(
            f"{count} nodes are numbered from 0 to {count - 1}; got node {low if low < 0 else high}. "
            f"{'Number them from 0' if low < 0 else f'Use nodes={high + 1}'}."
        )
    if axes >= count:
        raise ValueError(
            f"{count} nodes have {max(count - 1, 0)} non-constant eigenvectors; {axes} axes were asked for. "
            "Ask for fewer axes."
        )
    adjacency = torch.zeros(count, count, dtype=torch.float64, device=edges.device)
    adjacency[edges[:, 0], edges[:, 1]] = 1
    adjacency = torch.maximum(adjacency, adjacency.T).fill_diagonal_(0)
    scale = adjacency.sum(1).clamp(min=1).rsqrt()
    laplacian = torch.eye(count, dtype=torch.float64, device=edges.device) - scale[:, None] * adjacency * scale
    vectors = torch.linalg.eigh(laplacian).eigenvectors[:, 1 : axes + 1] * math.sqrt(count)
    peak = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
    return Positions((vectors * peak.sign()).to(torch.float32))


def node_pairs(edges: Sequence[tuple[int, int]] | Tensor) -> tuple[tuple[int, int], ...]:
    """Edges as pairs of node numbers. Raises ValueError for another shape and for numbers that are not whole."""
    if isinstance(edges, Tensor):
        if edges.dim() != 2 or edges.shape[-1] != 2:
            shape = tuple(edges.shape)
            raise ValueError(f"edges are pairs of node numbers, shape (E, 2); got {shape}. Transpose them?")
        if edges.is_floating_point():
            raise ValueError(f"node numbers are integers; got {edges.dtype}. Write edges.long().")
        return tuple((a, b) for a, b in edges.tolist())
    strange = next((edge for edge in edges if not isinstance(edge, Sequence | Tensor) or len(edge) != 2), None)
    if strange is not None:
        raise ValueError(f"edges are pairs of node numbers, as [(0, 1), (1, 2)]; got {strange!r}. Write them so.")
    return tuple((int(a), int(b)) for a, b in edges)


def _flatten_with_keys(pos: Any) -> tuple[list[tuple[Any, Any]], Any]:
    return [(pytree.GetAttrKey(name), getattr(pos, name)) for name in ("coords", "placed")], pos.lattice


def _rebuild(leaves: Any, lattice: Any) -> Positions:
    # compile and export hand back stand-ins for the tensors: no check may look at them
    pos = object.__new__(Positions)
    object.__setattr__(pos, "coords", leaves[0])
    object.__setattr__(pos, "placed", leaves[1])
    object.__setattr__(pos, "lattice", lattice)
    return pos


pytree.register_pytree_node(
    Positions,
    lambda pos: ([pos.coords, pos.placed], pos.lattice),
    _rebuild,
    serialized_type_name="posenc.Positions",
    to_dumpable_context=lambda lattice: lattice,
    from_dumpable_context=lambda lattice: None if lattice is None else tuple(lattice),
    flatten_with_keys_fn=_flatten_with_keys,
)
