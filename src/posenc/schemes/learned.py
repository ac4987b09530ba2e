"""Learned positional embedding: a table with one trained row per position.

    e_p = E[p],   E in R^(max_len x d),   E_pi ~ N(0, sigma^2) before training

The initial standard deviation ``sigma`` decides what the trained table represents (arXiv 2406.08272, "learn-sigma").
The text of that paper writes N(0, sigma); its code (github ljhearne/LSTNN_public) computes ``randn * sigma``.

``resized`` interpolates a table of grid positions to another resolution (arXiv 2010.11929, section 3.2), with the
conventions of ``posenc.kernels.resampling``.

Source: Gehring et al. 2017, arXiv 1705.03122, section 3.1 (learned position embeddings); Ito et al. 2024, arXiv
2406.08272 (their initialization).
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.kernels.resampling import Method, resample
from posenc.kernels.table_lookup import Rows, look_up
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Learned(Scheme):
    """Learned absolute positional embedding, for integer positions on one axis.

        e_p = E[p],   0 <= p < max_len

    Args:
        dim: Width d of the embedding.
        max_len: Number of positions, which is the number of rows of the table ``(max_len, dim)``.
        sigma: Standard deviation of the initial table, at least 0. Default: 1.
        distribution: Initial distribution: "normal", or "uniform" on ``[-sqrt(3) sigma, sqrt(3) sigma]``, which has
            the same standard deviation. Default: "normal".
        generator: Random generator of the initial table. Default: torch's global generator.

    Raises:
        ValueError: If ``dim`` or ``max_len`` is less than 1, ``sigma`` is negative or not finite, or ``distribution``
            is unknown.

    Example:
        >>> from posenc import Learned, sequence
        >>> scheme = Learned(dim=12, max_len=24, sigma=0.2)
        >>> scheme.embed(scheme.prepare(sequence(10))).shape
        torch.Size([10, 12])

    References:
        Gehring et al. 2017, arXiv 1705.03122, section 3.1.
        Ito et al. 2024, arXiv 2406.08272 (initialization).
    """

    cite = """@inproceedings{hearne2025learning,
  title={Learning interpretable positional encodings in transformers depends on initialization},
  author={Ito, Takuya and Cocchi, Luca and Klinger, Tim and Ram, Parikshit and Campbell, Murray and Hearne, Luke J},
  booktitle={ICML}, year={2025}, note={arXiv:2406.08272}}"""
    examples = (
        {"dim": 12, "max_len": 24},
        {"dim": 12, "max_len": 24, "sigma": 0.2},
        {"dim": 12, "max_len": 24, "distribution": "uniform"},
    )

    table: nn.Parameter

    def __init__(
        self,
        dim: int,
        max_len: int,
        *,
        sigma: float = 1.0,
        distribution: Literal["normal", "uniform"] = "normal",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if not (math.isfinite(sigma) and sigma >= 0):
            raise ValueError(
                f"sigma is the standard deviation of the first table, a number >= 0; got {sigma:g}. "
                "Small ones (0.1 to 0.5) generalize best in arXiv 2406.08272."
            )
        if dim < 1 or max_len < 1:
            raise ValueError(f"a learned table needs dim >= 1 and max_len >= 1; got dim={dim}, max_len={max_len}.")
        if distribution not in ("normal", "uniform"):
            raise ValueError(f"the first table is drawn 'normal' or 'uniform'; got {distribution!r}.")
        self.sigma, self.distribution = sigma, distribution
        self.table = nn.Parameter(torch.empty(max_len, dim))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="none",
            isometric=False,
            learned=True,
            range=(0, max_len - 1),
            axes=1,
            sites=frozenset({"embed"}),
            sharing="layer",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the table; needed after construction on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        with torch.no_grad():
            if self.distribution == "normal":
                self.table.normal_(0, 1, generator=generator).mul_(self.sigma)
            else:
                self.table.uniform_(-1, 1, generator=generator).mul_(math.sqrt(3) * self.sigma)

    @property
    @override
    def out_dim(self) -> int:
        return self.table.shape[1]

    def resized(
        self,
        shape: Sequence[int],
        to: Sequence[int],
        *,
        before: int = 0,
        method: Method = "cubic",
        antialias: bool = True,
    ) -> Learned:
        """Interpolate a table of grid positions to another resolution of the same grid.

        Both grids are row-major, with axes in the same order. An axis of equal size is copied exactly.

        Args:
            shape: Shape of the present grid, one size per axis.
            to: Shape of the new grid, one size per axis.
            before: Number of first rows that belong to no grid position, such as a class token's. They are copied.
                Default: 0.
            method: Interpolation, "cubic" or "linear". Default: "cubic".
            antialias: Whether the kernel is widened where the grid shrinks. Default: True.

        Returns:
            A new ``Learned`` with ``before + prod(to)`` positions.

        Raises:
            ValueError: If ``shape`` does not have as many points as the table has grid rows, ``to`` has another number
                of axes, or ``method`` is unknown.

        Example:
            >>> from posenc import Learned
            >>> Learned(dim=12, max_len=17).resized((4, 4), (8, 8), before=1).table.shape
            torch.Size([65, 12])
        """
        rows, dim = len(self.table) - before, self.out_dim
        if math.prod(shape) != rows:
            raise ValueError(
                f"a table of {rows} rows is not a grid of shape {tuple(shape)}, which has {math.prod(shape)} points. "
                "Keep a class token out of the table, which has a parameter of its own, or say before=1."
            )
        if len(to) != len(shape) or min(to) < 1:
            raise ValueError(
                f"a grid of shape {tuple(shape)} has {len(shape)} axes and so has its new shape, each of at least 1 "
                f"point; got {tuple(to)}."
            )
        if method not in ("cubic", "linear"):
            raise ValueError(f"a table is interpolated 'cubic' or 'linear'; got {method!r}.")
        first, of_grid = self.table.detach().split([before, rows])
        table = resample(of_grid.reshape(*shape, dim), to, method=method, antialias=antialias).reshape(-1, dim)
        other = copy.deepcopy(self)
        other.table = nn.Parameter(torch.cat([first, table.to(first.dtype)]), self.table.requires_grad)
        other.claims = dataclasses.replace(self.claims, range=(0, before + math.prod(to) - 1))
        other._restate(max_len=len(other.table))
        return other

    @override
    def prepare(self, pos: Positions) -> Rows:
        return Rows(self._rows(pos), pos.placed)

    @override
    def embed(self, where: Rows) -> Tensor:
        return look_up(self.table, where)

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        return self.table[int(p[0])]
