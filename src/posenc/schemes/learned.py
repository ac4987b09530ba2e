"""Learned positions: a table with one trained row a position.

    e_p = E[p],   E in R^(max_len x d),   E_pi ~ N(0, sigma^2) before training

How small ``sigma`` is decides what the table becomes (arXiv 2406.08272, "learn-sigma"); there sigma is the standard
deviation, which their text writes N(0, sigma) and their code (github ljhearne/LSTNN_public) ``randn * sigma``.

A table that stands for a grid, row by row, is read at another resolution by ``resized`` (arXiv 2010.11929,
section 3.2); its conventions are those of ``posenc.kernels.resampling``.

Source: Gehring et al. 2017, arXiv 1705.03122, section 3.1 (learned position embeddings); Hearne et al. 2024,
arXiv 2406.08272 (their initialisation).
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from posenc.kernels.resampling import Method, resample
from posenc.kernels.tables import Rows, look_up
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Learned(Scheme):
    """``e_p = E[p]`` for whole positions ``0 <= p < max_len``, on one axis.

    dim: width of a row. max_len: number of rows. sigma: standard deviation before training, >= 0.
    distribution: "normal", or "uniform" on ``[-sqrt(3) sigma, sqrt(3) sigma]``, which has the same deviation.
    generator: of the first values; torch's default generator otherwise, as for every layer.
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
                "Small ones (0.1 to 0.5) generalise best in arXiv 2406.08272."
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
        """Draw the table anew (also after building on the meta device)."""
        with torch.no_grad():
            if self.distribution == "normal":
                self.table.normal_(0, 1, generator=generator).mul_(self.sigma)
            else:
                self.table.uniform_(-1, 1, generator=generator).mul_(math.sqrt(3) * self.sigma)

    @property
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
        """Another ``Learned`` for a grid ``to``, whose table is this one's, as a grid of ``shape``, interpolated.

        Both grids are row-major with axes in the same order; an axis of equal size is copied exactly. before: first
        rows that are of no grid, as a class token's, and stay as they are. Raises ValueError where ``shape`` has not as
        many points as the table other rows.
        """
        rows, dim = len(self.table) - before, self.out_dim
        if math.prod(shape) != rows:
            raise ValueError(
                f"a table of {rows} rows is no grid of shape {tuple(shape)}, which has {math.prod(shape)} points. "
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
        return other

    def prepare(self, pos: Positions) -> Rows:
        return Rows(self._rows(pos), pos.placed)

    def embed(self, where: Rows) -> Tensor:
        return look_up(self.table, where)

    def define_embed(self, p: Tensor) -> Tensor:
        return self.table[int(p[0])]
