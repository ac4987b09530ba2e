"""SwinBias: the relative position bias of Swin, a learned scalar per head and per offset inside a window, on any axes.

    s_ij = q_i . k_j + B_h[p_j - p_i],   B of (2 w_1 - 1)(2 w_2 - 1) .. offsets        (eq. 4)

Source: Liu et al. 2021, arXiv 2103.14030. BEiT and LeViT use the same bias.

Conventions:
- Positions lie inside the window, 0 <= p_a < w_a, with the axes in the order of the data.
- The rows of the table are row-major in the offset of key minus query, from ``1 - w``. The authors' released tables
  count query minus key: theirs is ``table.flip(0)``.
- The table starts as N(0, 0.02^2) and belongs to one layer, as in the authors' code. It is built for the query heads.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.kernels.pairs import Pairs, PairScheme, window_reader, window_rows
from posenc.kernels.resampling import Method, resample
from posenc.kernels.table_lookup import look_up_pairs
from posenc.positions import Positions
from posenc.scheme import At, Claims, per_head

SIGMA = 0.02
"""Standard deviation of the initial table."""


class SwinBias(PairScheme):
    """Relative position bias inside a window, for whole positions.

        s_ij = q_i . k_j + B_h[p_j - p_i]

    Args:
        heads: Number of query heads.
        window: Size of the window in positions on each axis, for example (7, 7).
        generator: Random generator for the initial table, ``(offsets, heads)``; torch's default generator if None.

    Raises:
        ValueError: If ``heads`` is below 1, or ``window`` is empty or has a size below 1.

    Example:
        >>> import torch
        >>> from posenc import SwinBias, attention, grid
        >>> q, k, v = torch.randn(3, 1, 4, 6, 12).unbind()  # each (B, H, N, D)
        >>> attention(q, k, v, scheme=SwinBias(4, window=(2, 3)), q_pos=grid(2, 3)).shape
        torch.Size([1, 4, 6, 12])

    References:
        Liu, Lin, Cao, Hu, Wei, Zhang, Lin and Guo, 2021, "Swin Transformer: Hierarchical Vision Transformer using
        Shifted Windows", arXiv 2103.14030, eq. 4.
    """

    cite = """@inproceedings{liu2021swin,
  title={Swin Transformer: Hierarchical Vision Transformer using Shifted Windows},
  author={Liu, Ze and Lin, Yutong and Cao, Yue and Hu, Han and Wei, Yixuan and Zhang, Zheng and Lin, Stephen
  and Guo, Baining},
  booktitle={ICCV}, year={2021}, note={arXiv:2103.14030}}"""
    examples = (
        {"heads": 4, "window": (24, 24)},
        {"heads": 4, "window": (26, 24)},
        {"heads": 1, "window": (24,)},
    )
    bias_reads = frozenset()

    conventions = ("window",)

    table: nn.Parameter

    def __init__(self, heads: int, window: Sequence[int], *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.heads = heads
        if heads < 1 or not window or min(window) < 1:
            raise ValueError(
                f"SwinBias needs heads >= 1 and a window of at least 1 on each axis, as (7, 7); got heads={heads}, "
                f"window={tuple(window)}."
            )
        self.window = tuple(window)
        self.table = nn.Parameter(torch.empty(math.prod(2 * w - 1 for w in self.window), heads))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=True,
            range=tuple((0, size - 1) for size in self.window),
            axes=len(self.window),
            sites=frozenset({"bias"}),
            sharing="layer and head" if heads > 1 else "layer",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the initial table again, also after the module was built on the meta device.

        Args:
            generator: Random generator; torch's default generator if None.
        """
        nn.init.normal_(self.table, std=SIGMA, generator=generator)

    def resized(
        self,
        shape: Sequence[int],
        to: Sequence[int],
        *,
        before: int = 0,
        method: Method = "cubic",
        antialias: bool = False,
    ) -> SwinBias:
        """Interpolate the table to another size of the window, as Swin models do for larger images.

        The table is a grid of offsets, ``2 w - 1`` on each axis. An axis of equal size is copied exactly.

        Args:
            shape: Present size of the window on each axis.
            to: New size of the window on each axis.
            before: Number of tokens without a position, such as a class token. They have no entry in the table.
                Default: 0.
            method: Interpolation, "cubic" (default) or "linear".
            antialias: Whether the kernel is widened where the window shrinks. Default False, as in Swin and timm.

        Returns:
            A new ``SwinBias``.

        Raises:
            ValueError: If ``shape`` is not the window, ``to`` has another number of axes or a size below 1, or
                ``method`` is unknown.

        Example:
            >>> from posenc import SwinBias
            >>> SwinBias(4, window=(7, 7)).resized((7, 7), (12, 12)).table.shape
            torch.Size([529, 4])
        """
        if tuple(shape) != self.window or len(to) != len(shape) or min(to) < 1:
            raise ValueError(
                f"this window is {self.window}, and its new size has as many axes, of at least 1; got "
                f"shape={tuple(shape)}, to={tuple(to)}."
            )
        if method not in ("cubic", "linear"):
            raise ValueError(f"a table is interpolated 'cubic' or 'linear'; got {method!r}.")
        other, heads = copy.deepcopy(self), self.table.shape[1]
        offsets = self.table.detach().reshape(*(2 * size - 1 for size in shape), heads)
        rows = resample(offsets, [2 * size - 1 for size in to], method=method, antialias=antialias)
        other.window, rows = tuple(to), rows.reshape(-1, heads).to(self.table.dtype)
        other.table = nn.Parameter(rows, self.table.requires_grad)
        other.claims = dataclasses.replace(self.claims, range=tuple((0, size - 1) for size in to))
        other._restate(window=other.window)
        return other

    @override
    def prepare(self, pos: Positions) -> Positions:
        return self._whole(pos)

    @override
    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, attn_mask: Tensor | None) -> Tensor:
        table = per_head(self.table, q, "SwinBias", dim=1)
        return pair.neutral(look_up_pairs(table, window_rows(pair, self.window)))

    @override
    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        read, table = window_reader(pair, self.window), per_head(self.table, q, "SwinBias", dim=1)
        table = table.expand(-1, q.shape[1])

        def offset(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            row, placed = read(b, i, j)
            higher = score + table[row, h]
            return higher if placed is None else torch.where(placed, higher, score)

        return offset

    @override
    def define_bias(self, at: At) -> Tensor:
        row = 0
        for axis, size in enumerate(self.window):
            row = row * (2 * size - 1) + int(at.k_pos[at.j, axis] - at.q_pos[at.i, axis]) - (1 - size)
        return self.table[row, at.head.among(self.table.shape[1])]
