"""LogCPB: the log-spaced continuous position bias of Swin V2, an MLP from log-scaled offsets in a window to biases.

    s_ij = q_i . k_j + G_h(d_1, .., d_P),   d_a = sign(p_j - p_i) log(1 + |p_j - p_i|) on axis a        (eqs. 3 and 4)

``G`` has two layers with a ReLU between them (hidden width 512), the second without biases. Because offsets are
logarithms, a trained scheme extrapolates little when it is used in a larger window: ``scheme.moved((16, 16))``.

Source: Liu et al. 2022, arXiv 2111.09883, section 3.3.

Conventions:
- Positions are integers inside the window, 0 <= p_a < w_a, with axes in the order of the data.
- Offsets are key minus query. The released code has query minus key: negate the weights of its first layer.
- G is evaluated once for all (2 w_1 - 1)(2 w_2 - 1) .. offsets.
- ``literal=True``: as released (github microsoft/Swin-Transformer). Offsets are ``d = sign(r) log2(1 + |r|) / log2(8)``
  with ``r = 8 (p_j - p_i) / (w - 1)``, where w is the window ``made_for``. Where w is 1, ``r = 8 (p_j - p_i)``. The
  bias is ``16 sigmoid(G)``.
- Weights start as N(0, 0.02^2), biases as 0.
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
from posenc.kernels.table_lookup import look_up_pairs
from posenc.positions import Positions
from posenc.scheme import At, Claims, per_head

SIGMA = 0.02
"""Standard deviation of the initial weights."""


class LogCPB(PairScheme):
    """Log-spaced continuous position bias (Log-CPB), for integer positions inside a window.

        s_ij = q_i . k_j + G_h(d_1, .., d_P),   d_a = sign(p_j - p_i) log(1 + |p_j - p_i|) on axis a

    Args:
        heads: Number of query heads.
        window: Size of the window on each axis, ``(P,)``, such as (8, 8).
        hidden: Width of the hidden layer of G. Default: 512, as in the paper.
        literal: If True, offsets and bias as released. Default: False.
        made_for: Window by whose size offsets are scaled, ``(P,)``; only with ``literal=True``. Default: ``window``.
        generator: Random generator of the initial weights. Default: torch's global generator.

    Raises:
        ValueError: If ``heads``, ``hidden`` or a size of a window is less than 1, or if ``made_for`` is given without
            ``literal=True`` or has another number of axes.

    Example:
        >>> import torch
        >>> from posenc import LogCPB, attention, grid
        >>> q = k = v = torch.randn(1, 2, 16, 8)  # (batch, heads, tokens, head_dim)
        >>> attention(q, k, v, scheme=LogCPB(heads=2, window=(4, 4), hidden=32), q_pos=grid(4, 4)).shape
        torch.Size([1, 2, 16, 8])

    References:
        Liu et al. 2022, arXiv 2111.09883, eqs. 3 and 4.
    """

    cite = """@inproceedings{liu2022swin,
  title={Swin Transformer V2: Scaling Up Capacity and Resolution},
  author={Liu, Ze and Hu, Han and Lin, Yutong and Yao, Zhuliang and Xie, Zhenda and Wei, Yixuan and Ning, Jia
  and Cao, Yue and Zhang, Zheng and Dong, Li and Wei, Furu and Guo, Baining},
  booktitle={CVPR}, year={2022}, note={arXiv:2111.09883}}"""
    examples = (
        {"heads": 4, "window": (24, 24), "hidden": 8},
        {"heads": 4, "window": (24, 26), "hidden": 8, "literal": True},
        {"heads": 4, "window": (24, 26), "hidden": 8, "literal": True, "made_for": (8, 9)},
        {"heads": 1, "window": (24,), "hidden": 4},
    )
    bias_reads = frozenset()
    conventions = ("literal", "made_for")

    inner: nn.Parameter
    offset: nn.Parameter
    outer: nn.Parameter

    def __init__(
        self,
        heads: int,
        window: Sequence[int],
        *,
        hidden: int = 512,
        literal: bool = False,
        made_for: Sequence[int] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.heads = heads
        if heads < 1 or hidden < 1 or not window or min(window) < 1:
            raise ValueError(
                f"LogCPB needs heads >= 1, hidden >= 1 and a window of at least 1 on each axis, as (8, 8); got "
                f"heads={heads}, hidden={hidden}, window={tuple(window)}."
            )
        if made_for is not None and (not literal or len(made_for) != len(window) or min(made_for) < 1):
            raise ValueError(f"made_for is a window of literal=True, as {tuple(window)}; got {tuple(made_for)}.")
        self.window, self.literal = tuple(window), literal
        self.made_for = tuple(made_for or window) if literal else None
        self.inner, self.offset = nn.Parameter(torch.empty(len(window), hidden)), nn.Parameter(torch.empty(hidden))
        self.outer = nn.Parameter(torch.empty(hidden, heads))
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
        """Redraw the weights and set the biases to 0; needed after construction on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        for weight in (self.inner, self.outer):
            nn.init.normal_(weight, std=SIGMA, generator=generator)
        nn.init.zeros_(self.offset)

    def moved(self, window: Sequence[int]) -> LogCPB:
        """Copy the scheme, with its weights, to another window.

        Args:
            window: Size of the new window on each axis, ``(P,)``.

        Returns:
            A new ``LogCPB`` for the new window.

        Raises:
            ValueError: If ``window`` has another number of axes, or a size is less than 1.
        """
        if len(window) != len(self.window) or min(window) < 1:
            raise ValueError(f"this LogCPB has windows of {len(self.window)} axes, each >= 1; got {tuple(window)}.")
        other = copy.deepcopy(self)
        other.window = tuple(window)
        other.claims = dataclasses.replace(self.claims, range=tuple((0, size - 1) for size in window))
        other._restate(window=other.window, **({"made_for": self.made_for} if self.literal else {}))
        return other

    @override
    def prepare(self, pos: Positions) -> Positions:
        return self._whole(pos)

    @override
    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, attn_mask: Tensor | None) -> Tensor:
        return pair.neutral(look_up_pairs(per_head(self._table(), q, "LogCPB", dim=1), window_rows(pair, self.window)))

    @override
    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        read = window_reader(pair, self.window)
        table = per_head(self._table(), q, "LogCPB", dim=1).expand(-1, q.shape[1])

        def continuous(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            row, placed = read(b, i, j)
            higher = score + table[row, h]
            return higher if placed is None else torch.where(placed, higher, score)

        return continuous

    def _table(self) -> Tensor:
        """Return the bias of every offset in the window, row-major, ``(rows, h)``."""
        axes, dtype = [], torch.promote_types(self.inner.dtype, torch.float32)
        for size, made_for in zip(self.window, self.made_for or self.window, strict=True):
            steps = torch.arange(1 - size, size, dtype=dtype, device=self.inner.device)
            steps = steps * (8 / max(made_for - 1, 1) if self.literal else 1)
            axes.append(steps.sign() * torch.log1p(steps.abs()) / (math.log(8) if self.literal else 1))
        d = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, -2)
        g = torch.relu(d @ self.inner.to(dtype) + self.offset.to(dtype)) @ self.outer.to(dtype)
        return 16 * torch.sigmoid(g) if self.literal else g

    @override
    def define_bias(self, at: At) -> Tensor:
        total, head = self.offset, at.head.among(self.outer.shape[1])
        for axis, w in enumerate(self.made_for or self.window):
            r = (at.k_pos[at.j, axis] - at.q_pos[at.i, axis]) * (8 / max(w - 1, 1) if self.literal else 1)
            logarithm = torch.log2(1 + r.abs()) / math.log2(8) if self.literal else torch.log(1 + r.abs())
            total = total + torch.sign(r) * logarithm * self.inner[axis]
        g = torch.stack([torch.clamp(n, min=0) * w for n, w in zip(total, self.outer[:, head], strict=True)]).sum()
        return 16 / (1 + torch.exp(-g)) if self.literal else g
