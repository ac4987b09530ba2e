"""Positions: the coordinates of tokens or samples, as one small value that every scheme reads.

The letters of shapes, used in every signature of the project:

    B batch   H heads   Q queries   K keys   N tokens or samples   P axes of positions   D channels of one head

A position is a vector of ``P`` real coordinates, one vector per token. The axes are in the order of the data's shape:
``(row, column)`` for an image. Coordinates start at 0 and count tokens, unless a builder states otherwise.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from jaxtyping import Bool, Shaped
from torch import Tensor
from torch._C._functorch import maybe_current_level
from torch.utils import _pytree as pytree

from posenc.graph_batch import GraphBatch
from posenc.whole_numbers import are_whole

SMALL_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.uint16, torch.uint32, torch.uint64)
SMALL_FLOATS = (torch.float16, torch.bfloat16)
WITHOUT_FLOAT64 = ("mps",)
"""Device types that have no float64."""
MOST_IN_FLOAT32 = 2**23  # float32 cannot represent halves from here on
COARSE_IN_FLOAT32 = 2**24
COARSE = (
    "positions beyond 2^24 in float32 are rounded to steps of 2 or more (128 for Unix times), so neighboring positions "
    "coincide. Pass float64, or subtract the first position in float64 and pass the difference."
)
"""Warning of positions from ``COARSE_IN_FLOAT32`` on. It names no position, so that Python prints it once."""
COARSE_IN_FLOAT64 = 2**53
WIDE = (
    "positions beyond 2^53 are rounded to steps of 2 or more (256 for Unix times in nanoseconds), because angles are "
    "computed in float64, so neighboring positions coincide. Subtract the first position as integers, or count a "
    "larger unit, as posenc.times does."
)
"""Warning of positions from ``COARSE_IN_FLOAT64`` on."""


@dataclasses.dataclass(frozen=True, eq=False)
class Positions:
    """The coordinates of N tokens on P axes: ``coords[.., n, p]`` is the position of token ``n`` on axis ``p``.

    A frozen value and a pytree: every operation returns a new value, and ``torch.compile`` and autograd read its
    tensors. The builders ``sequence``, ``times``, ``grid``, ``sphere``, ``graph`` and ``graphs`` make the usual ones.

    Attributes:
        coords: Real coordinates, of shape ``(N, P)`` if all samples of a batch share them, else ``(B, N, P)``.
            Half precision is stored as float32, small integers as int64. Gradients flow through them.
        placed: False for tokens without a position: class token, registers, mask tokens, padding. Boolean, of shape
            ``(N,)`` or ``(B, N)``; None, the default, if every token has a position. Every scheme treats a token
            without a position neutrally: angle 0, factor 1, a row of zeros, bias 0.
        lattice: Shape of the full grid that the placed tokens form in row-major order; None, the default, if they
            form none. Schemes that need the neighbors of a token read it.
        graph: The graphs whose nodes the tokens are: edges, eigenvalues, shortest-path lengths. None, the default, for
            other tokens. ``graph`` and ``graphs`` make it.

    Raises:
        ValueError: If ``coords`` has another rank, is not real, or has a coordinate that is NaN or infinite; or if
            ``placed`` or ``lattice`` does not fit ``coords``.

    Example:
        >>> import torch
        >>> from posenc import Positions
        >>> pos = Positions(torch.tensor([[0.0, 1.5], [2.0, 0.5], [3.0, 3.0]]))
        >>> pos.count, pos.axes
        (3, 2)
        >>> (pos + (10.0, 0.0))[0:1].coords
        tensor([[10.0000,  1.5000]])
    """

    coords: Shaped[Tensor, "*B N P"]
    placed: Bool[Tensor, "*placed N"] | None = None
    lattice: tuple[int, ...] | None = None
    graph: GraphBatch | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.coords, Tensor) or self.coords.is_nested:
            given = "a nested tensor" if isinstance(self.coords, Tensor) else type(self.coords).__name__
            raise ValueError(
                f"positions are one tensor (N, P) or (B, N, P); got {given}. For a list write torch.tensor(..); for "
                "samples of different lengths pad them, with placed=False where there is no token."
            )
        if self.coords.dtype in SMALL_INTEGERS:  # the difference of two of them could overflow
            object.__setattr__(self, "coords", self.coords.long())
        if self.coords.dtype in SMALL_FLOATS:  # the difference of two of them would be rounded
            _warn_if_rounded(self.coords)
            object.__setattr__(self, "coords", self.coords.float())
        shape = tuple(self.coords.shape)
        if len(shape) not in (2, 3):
            raise ValueError(
                f"positions have shape (N, P) or (B, N, P), tokens by axes; got {shape}. "
                "For positions on one axis write sequence(n), or coords[..., None]."
            )
        if self.coords.dtype == torch.bool or self.coords.is_complex():
            raise ValueError(f"positions are real numbers; got {self.coords.dtype}. Pass integers or floats.")
        if self.placed is not None and getattr(self.placed, "dtype", None) != torch.bool:
            got, remedy = getattr(self.placed, "dtype", type(self.placed).__name__), "torch.as_tensor(placed).bool()"
            raise ValueError(f"`placed` is True or False for each token; got {got}. Write {remedy}.")
        if self.placed is not None and not _fits(self.placed, shape):
            raise ValueError(
                f"`placed` says for each of the {shape[-2]} tokens whether it has a position; "
                f"got shape {tuple(self.placed.shape)}. Give it shape {shape[:-1]}."
            )
        if self.lattice is not None and self.placed is None and math.prod(self.lattice) != shape[-2]:
            raise ValueError(
                f"a lattice of shape {self.lattice} has {math.prod(self.lattice)} points; "
                f"there are {shape[-2]} positions. Use grid{self.lattice}, or lattice=None."
            )
        # whole numbers on a GPU are not read: it would wait for them at each decoded token
        read = self.coords.is_floating_point() or self.coords.device.type == "cpu"
        if read and readable(self.coords) and self.coords.numel():
            _check_values(self.coords)

    @property
    def axes(self) -> int:
        """The number P of coordinates of a position."""
        return self.coords.shape[-1]

    @property
    def count(self) -> int:
        """The number N of tokens."""
        return self.coords.shape[-2]

    @property
    def batched(self) -> bool:
        """True if ``coords`` or ``placed`` has a batch axis, so that samples may differ."""
        return self.coords.dim() == 3 or (self.placed is not None and self.placed.dim() == 2)

    def __add__(self, shift: Tensor | float | Sequence[float]) -> Positions:
        """Positions translated by ``+shift``.

        Integer coordinates and a fractional shift give float32, or float64 if float32 cannot represent the result.

        Args:
            shift: A number, one number per axis, or a tensor that broadcasts to ``coords``.

        Returns:
            New positions with the same ``placed`` and ``lattice``.
        """
        if isinstance(shift, Sequence):
            shift = torch.as_tensor(shift, device=self.coords.device)
        return dataclasses.replace(self, coords=_moved(self.coords, shift))

    def __sub__(self, shift: Tensor | float | Sequence[float]) -> Positions:
        """Positions translated by ``-shift``, with the rules of ``pos + shift``.

        Args:
            shift: A number, one number per axis, or a tensor that broadcasts to ``coords``.

        Returns:
            New positions with the same ``placed`` and ``lattice``.
        """
        if isinstance(shift, Sequence):
            shift = torch.as_tensor(shift, device=self.coords.device)
        return dataclasses.replace(self, coords=_moved(self.coords, shift, torch.sub))

    def __getitem__(self, tokens: slice) -> Positions:
        """Positions of a range of tokens, as in decoding: ``pos[t : t + 1]``.

        Args:
            tokens: A slice along the token axis.

        Returns:
            New positions without a ``lattice``, because a part is not a full grid.

        Raises:
            ValueError: If ``tokens`` is not a slice.
        """
        if not isinstance(tokens, slice):
            raise ValueError(f"positions are cut by a slice of tokens, as pos[3:4]; got {tokens!r}. Or use pos.take.")
        placed = None if self.placed is None else self.placed[..., tokens]
        graph = None if self.graph is None else self.graph.of_tokens(tokens)
        return Positions(self.coords[..., tokens, :], placed, graph=graph)

    def take(self, index: Tensor) -> Positions:
        """Positions of chosen tokens of each sample, such as the tokens that a model predicts.

        Args:
            index: Token numbers: ``(B,)`` for one token per sample, ``(B, M)`` for several.

        Returns:
            Positions of shape ``(B, 1, P)`` or ``(B, M, P)``, without a ``lattice``.

        Example:
            >>> import torch
            >>> from posenc import sequence
            >>> sequence(5).take(torch.tensor([3, 1])).coords.shape
            torch.Size([2, 1, 1])
        """
        index = index[:, None] if index.dim() == 1 else index
        coords, placed = self.coords, self.placed
        if coords.dim() == 3:  # its first axis is B, or 1 for positions that all samples share
            coords = coords.expand(len(index), -1, -1).gather(1, index[..., None].expand(-1, -1, self.axes))
        else:
            coords = coords[index]
        if placed is not None:
            placed = placed.expand(len(index), -1).gather(1, index) if placed.dim() == 2 else placed[index]
        return Positions(coords, placed, graph=None if self.graph is None else self.graph.of_tokens(index))

    def to(self, device: torch.device | str) -> Positions:
        """The same positions on another device.

        Args:
            device: A torch device or its name.

        Returns:
            Positions with ``coords``, ``placed`` and ``graph`` on ``device``.
        """
        placed = None if self.placed is None else self.placed.to(device)
        graph = None if self.graph is None else self.graph.to(device)
        return dataclasses.replace(self, coords=self.coords.to(device), placed=placed, graph=graph)

    def precise(self) -> Tensor:
        """The coordinates in float64, so that 10^7 times a frequency keeps its phase.

        Returns:
            A tensor of the shape of ``coords``, in float64.

        Raises:
            ValueError: If the device has no float64; float32 would lose the phase.
        """
        if self.coords.device.type in WITHOUT_FLOAT64:
            raise ValueError(
                f"angles are counted in float64, which the device {self.coords.device} does not have. Keep scheme and "
                "positions on the CPU, and move what scheme.prepare(pos) returns: torch.utils._pytree.tree_map."
            )
        return self.coords.to(torch.float64)

    @property
    def table_dtype(self) -> torch.dtype:
        """The dtype of a scheme's prepared tables: float64 for float64 coordinates, else float32."""
        return torch.float64 if self.coords.dtype == torch.float64 else torch.float32


def _moved(coords: Tensor, shift: Tensor | float, move: Callable[..., Tensor] = torch.add) -> Tensor:
    if isinstance(shift, Tensor) and shift.dim() and shift.shape[-1] not in (1, coords.shape[-1]):
        raise ValueError(
            f"a shift is one number, one per axis, here {coords.shape[-1]}, or a tensor that broadcasts to the "
            f"coordinates; got one of shape {tuple(shift.shape)}. For one shift per sample write shift[:, None, None]."
        )
    fraction = isinstance(shift, float) or (isinstance(shift, Tensor) and shift.is_floating_point())
    if not fraction or coords.is_floating_point() or not readable(coords) or coords.numel() == 0:
        return move(coords, shift)
    low, high = coords.aminmax()
    far = max(-int(low), int(high)) >= MOST_IN_FLOAT32 and coords.device.type not in WITHOUT_FLOAT64
    return move(coords.double() if far else coords, shift)


def readable(values: Tensor) -> bool:
    """True if a check may read a tensor's values: not while compiling, on meta, or under a torch.func transform."""
    return not (torch.compiler.is_compiling() or values.device.type == "meta" or maybe_current_level() is not None)


def _fits(placed: Tensor, shape: tuple[int, ...]) -> bool:
    alone = placed.dim() == 1 or len(shape) == 2 or placed.shape[0] == shape[0]
    return placed.dim() in (1, 2) and placed.shape[-1] == shape[-2] and alone


def _warn_if_rounded(coords: Tensor) -> None:
    """Warn of coordinates in a dtype of few digits that cannot hold the whole numbers up to the largest of them."""
    exact = 2 / torch.finfo(coords.dtype).eps
    if readable(coords) and coords.numel() and float(coords.detach().float().abs().amax()) > exact:
        dtype = str(coords.dtype).removeprefix("torch.")
        warnings.warn(
            f"positions in {dtype} are rounded: it has not all whole numbers above {exact:.0f}. Make them in float32 "
            "or as integers; to convert them afterwards is too late.",
            UserWarning,
            stacklevel=3,
        )


def _check_values(coords: Tensor) -> None:
    """Raise ValueError for coordinates that are not finite; warn where floats cannot tell neighbors apart."""
    farthest = float(coords.detach().abs().amax())
    if math.isfinite(farthest):
        if coords.dtype == torch.float32 and farthest >= COARSE_IN_FLOAT32:
            warnings.warn(COARSE, UserWarning, stacklevel=2)
        if coords.dtype in (torch.float64, torch.int64) and farthest >= COARSE_IN_FLOAT64:
            warnings.warn(WIDE, UserWarning, stacklevel=2)
        return
    bad = int((~torch.isfinite(coords)).sum())
    raise ValueError(
        f"positions must be finite; {bad} of {coords.numel()} coordinates are NaN or infinite. "
        "Tokens without a position take placed=False and any finite coordinate."
    )


def as_positions(pos: Positions | Tensor) -> Positions:
    """Positions from Positions, which are returned unchanged, or from a tensor of coordinates.

    Args:
        pos: Positions, or a tensor of shape ``(N, P)`` or ``(B, N, P)``.

    Returns:
        Positions with these coordinates.

    Raises:
        ValueError: If ``pos`` is neither, or if the tensor cannot be ``Positions.coords``.

    Example:
        >>> import torch
        >>> from posenc import as_positions
        >>> as_positions(torch.tensor([[0.0], [2.5]])).count
        2
    """
    if isinstance(pos, Positions):
        return pos
    if isinstance(pos, Tensor):
        return Positions(pos)
    raise ValueError(
        f"positions are Positions or a tensor (N, P); got {type(pos).__name__}. "
        "For n tokens in a row write sequence(n); for an image grid(height, width)."
    )


def sequence(length: int | Tensor, *, start: float = 0, device: torch.device | str | None = None) -> Positions:
    """Positions of tokens in a row, on one axis.

        coords[n] = start + n,   n = 0 .. length - 1

    Args:
        length: The number N of tokens. Or a tensor of position ids, ``(N,)`` or ``(B, N)``, for packed documents,
            left padding or irregular time steps; then ``coords = start + length``.
        start: Position of the first token. Default 0.
        device: Device of the coordinates if ``length`` is a number. Default: torch's default device.

    Returns:
        Positions with one axis. They have the lattice ``(length,)`` if ``length`` is a number.

    Raises:
        ValueError: If ``length`` is negative, or neither a whole number nor a tensor.

    Example:
        >>> from posenc import sequence
        >>> sequence(3, start=10).coords
        tensor([[10],
                [11],
                [12]])
    """
    if isinstance(start, str) or not (hasattr(start, "__float__") or isinstance(start, torch.SymInt | torch.SymFloat)):
        raise ValueError(f"`start` is the position of the first token, a number; got {start!r}.")
    if isinstance(length, Tensor) and length.dtype == torch.bool:
        raise ValueError(
            "a sequence takes position ids, and this tensor is True or False, as a mask of real tokens. Its ids are "
            "(mask.cumsum(-1) - 1).clamp(min=0)."
        )
    if isinstance(length, Tensor):
        return Positions(_moved(length[..., None], start))
    if not isinstance(length, int | torch.SymInt) and (
        not hasattr(length, "__index__") or getattr(length, "shape", ())
    ):
        several = f"{type(length).__name__} of {len(length)}" if hasattr(length, "__len__") else repr(length)
        raise ValueError(
            f"a sequence takes a number of tokens or a tensor of positions; got {several}. Write sequence(8) for eight "
            "tokens, or sequence(torch.tensor([0.0, 0.5, 2.0])) for positions of your own."
        )
    if length < 0:
        raise ValueError(f"a sequence has at least 0 tokens; got {length}. Pass its length.")
    steps = torch.arange(length, device=device)
    return Positions(_moved(steps[:, None], start), lattice=(length,))


def grid(*shape: int, span: float | None = None, device: torch.device | str | None = None) -> Positions:
    """Positions of a full grid in row-major order, with the axes in the order of its shape.

        coords[r * w + c] = (r, c)                                                  for grid(h, w)
        coords[r * w + c] = span ((2 r + 1) / h - 1, (2 c + 1) / w - 1)             for grid(h, w, span=span)

    Args:
        *shape: Number of points along each axis, as ``grid(height, width)``.
        span: Half the extent of a centered grid, positive: the points are the centers of equal cells of
            ``[-span, span]`` on each axis, in float64, whatever their number. DINOv3 rotates by ``span=2 * math.pi``.
            Default: whole positions from 0.
        device: Device of the coordinates. Default: torch's default device.

    Returns:
        Positions of ``prod(shape)`` points on ``len(shape)`` axes, with ``lattice=shape``.

    Raises:
        ValueError: If no size is given, a size is negative, or ``span`` is not positive and finite.

    Example:
        >>> from posenc import grid
        >>> grid(2, 2).coords
        tensor([[0, 0],
                [0, 1],
                [1, 0],
                [1, 1]])
    """
    if not shape or not all(isinstance(each, torch.SymInt) or are_whole(each, least=0) for each in shape):
        raise ValueError(f"a grid needs a size along each axis, as grid(14, 14); got grid{shape}.")
    axes = [torch.arange(n, device=device) for n in shape]
    if span is not None:
        if not 0 < span < math.inf:
            raise ValueError(f"`span` is half the extent of a centered grid, positive and finite; got {span}.")
        axes = [span * ((2 * at.double() + 1) / n - 1) for at, n in zip(axes, shape, strict=True)]
    return Positions(torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, -2), lattice=tuple(shape))


def sphere(lon: Tensor, lat: Tensor, *, unit: Literal["degrees", "radians"] = "degrees") -> Positions:
    """Positions on a sphere, as longitude and latitude in radians.

        coords = (longitude, latitude)

    Args:
        lon: Longitude in ``unit``, of shape ``(N,)`` or ``(B, N)``.
        lat: Latitude in ``unit``, within ±90 degrees. Broadcasts with ``lon``.
        unit: Unit of both inputs, "degrees" (default) or "radians".

    Returns:
        Positions with two axes, in radians.

    Raises:
        ValueError: If ``unit`` is unknown or a latitude is beyond ±90 degrees.

    Example:
        >>> import torch
        >>> from posenc import sphere
        >>> sphere(torch.tensor([180.0]), torch.tensor([-90.0])).coords
        tensor([[ 3.1416, -1.5708]])
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


def node_pairs(edges: Sequence[tuple[int, int]] | Tensor) -> tuple[tuple[int, int], ...]:
    """Edges as a tuple of pairs of node numbers.

    Args:
        edges: Pairs of integers, or an integer tensor of shape ``(E, 2)``.

    Returns:
        One ``(node, node)`` pair of Python integers per edge, in the given order.

    Raises:
        ValueError: If the shape is not ``(E, 2)`` or a tensor is not of integers.
    """
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


def _leaves(pos: Any) -> dict[str, Any]:
    """Fields of positions that hold tensors. Without graphs there are two, as exported models know them."""
    return {"coords": pos.coords, "placed": pos.placed} | ({} if pos.graph is None else {"graph": pos.graph})


def _flatten_with_keys(pos: Any) -> tuple[list[tuple[Any, Any]], Any]:
    return [(pytree.GetAttrKey(name), leaf) for name, leaf in _leaves(pos).items()], pos.lattice


def _rebuild(leaves: Any, lattice: Any) -> Positions:
    # torch.compile and torch.export pass objects that stand in for tensors, so __post_init__ must not check them
    pos = object.__new__(Positions)
    for name, leaf in itertools.zip_longest(("coords", "placed", "graph"), leaves):
        object.__setattr__(pos, name, leaf)
    object.__setattr__(pos, "lattice", lattice)
    return pos


pytree.register_pytree_node(
    Positions,
    lambda pos: (list(_leaves(pos).values()), pos.lattice),
    _rebuild,
    serialized_type_name="posenc.Positions",
    to_dumpable_context=lambda lattice: lattice,
    from_dumpable_context=lambda lattice: None if lattice is None else tuple(lattice),
    flatten_with_keys_fn=_flatten_with_keys,
)
