"""OneBlob: each coordinate becomes a smooth bump over K bins of its axis, as a one-hot row that knows where in its bin.

    e_pk(v) = F(K ((k+1)/K - u_p)) - F(K (k/K - u_p)),    u = (v - low) / (high - low),    k = 0 .. K-1
    F(x) = (1 + erf(x / sqrt 2)) / 2                                      kernel "gaussian": sigma is a bin
    F(x) = 1/2 + 15/16 (x - 2 x^3 / 3 + x^5 / 5),  |x| <= 1               kernel "quartic": a bin to either side

Source: Müller et al. 2019, arXiv 1808.03856, section 4.3. Conventions: axis by axis, bin by bin; a bump is cut off at
an end of its axis, and goes on at the other where the box says "wrap". The paper's kernel is Gaussian; tiny-cuda-nn's
is quartic, and it wraps every axis: ``kernel="quartic", domain=(0, 1, "wrap")``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from posenc.kernels.domain import UNIT, on_axes
from posenc.kernels.grid_definition import define_unit
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme

Kernel = Literal["gaussian", "quartic"]


class OneBlob(Scheme):
    """``e_pk(v)``: how much of a bump around coordinate p lies in bin k, ``P K`` numbers of at most 1.

    axes: P. bins: K, of each axis. kernel: "gaussian" or "quartic". domain: the ``Box`` that the bins divide, and what
    is outside.
    """

    cite = """@article{mueller2019neural,
  title={Neural Importance Sampling},
  author={M{\\"u}ller, Thomas and McWilliams, Brian and Rousselle, Fabrice and Gross, Markus and Nov{\\'a}k, Jan},
  journal={ACM Transactions on Graphics}, volume={38}, number={5}, year={2019}, note={arXiv:1808.03856}}"""
    examples = (
        {"axes": 2, "bins": 6},
        {"bins": 6, "domain": (-9, 60)},
        {"axes": 2, "bins": 5, "kernel": "quartic", "domain": (-9, 60)},
        {"axes": 2, "bins": 2, "domain": (-3, 60, ("wrap", "clamp"))},
        {"axes": 3, "bins": 4, "kernel": "quartic", "domain": (-3, 60, "zero")},
    )
    conventions = ("kernel",)

    def __init__(
        self, axes: int = 1, bins: int = 32, *, kernel: Kernel = "gaussian", domain: Sequence[Any] = UNIT
    ) -> None:
        super().__init__()
        if axes < 1 or bins < 2:
            raise ValueError(f"OneBlob divides at least one axis into at least two bins; got axes={axes}, bins={bins}.")
        if kernel not in ("gaussian", "quartic"):
            raise ValueError(f"OneBlob's kernel is 'gaussian' or 'quartic'; got {kernel!r}.")
        self.axes, self.bins, self.domain = axes, bins, on_axes(domain, axes)
        self.kernel: Kernel = kernel
        self.claims = Claims(
            translation="none",
            isometric=False,
            learned=False,
            range=self.domain.range,
            axes=axes,
            sites=frozenset({"embed"}),
            sharing="model",
            cacheable=True,
        )

    @property
    def out_dim(self) -> int:
        return self.axes * self.bins

    def prepare(self, pos: Positions) -> Tensor:
        """The finished rows ``(.., N, P K)``."""
        points = self.domain.take(self._take(pos))
        edges = torch.arange(self.bins + 1, dtype=points.unit.dtype, device=points.unit.device)
        apart = edges - self.bins * points.unit[..., None]  # (.., N, P, K + 1), in bins
        below = self._below(apart)
        if any(self.domain.periodic):
            again = torch.tensor(self.domain.periodic, dtype=below.dtype, device=below.device)[:, None]
            beside = [self._below(apart + turn * self.bins) for turn in self._turns if turn]
            below = below + again * torch.stack(beside).sum(0)
        rows = below.diff(dim=-1).flatten(-2).to(pos.table_dtype)
        return rows if points.inside is None else rows * points.inside[..., None]

    def _refuse_outside(self, pos: Positions) -> None:
        self.domain.refuse_outside(pos, type(self).__name__)

    @property
    def _turns(self) -> range:
        """How often an axis is gone round until nothing is left of a bump: six of its bins to either side."""
        most = math.ceil(6 / self.bins)
        return range(-most, most + 1)

    def _below(self, x: Tensor) -> Tensor:
        """``F``: how much of the bump lies below an edge so many bins above its middle."""
        if self.kernel == "gaussian":
            return 0.5 * torch.erf(x * math.sqrt(0.5)) + 0.5
        x = x.clamp(-1, 1)
        square = x * x
        return 0.9375 * x * (1 - square * (2 / 3 - square / 5)) + 0.5

    def embed(self, where: Tensor) -> Tensor:
        return where

    def define_embed(self, p: Tensor) -> Tensor:
        unit = define_unit(p, self.domain)
        if unit is None:
            return torch.zeros(self.out_dim, dtype=p.dtype)
        row = []
        for u, wraps in zip(unit, self.domain.periodic, strict=True):
            for k in range(self.bins):
                whole = torch.zeros((), dtype=p.dtype)
                for middle in [u + turn for turn in self._turns] if wraps else [u]:
                    edges = ((k + 1) / self.bins - middle) * self.bins, (k / self.bins - middle) * self.bins
                    upper, lower = (self._define_below(edge) for edge in edges)
                    whole = whole + upper - lower
                row.append(whole)
        return torch.stack(row)

    def _define_below(self, x: Tensor) -> Tensor:
        if self.kernel == "gaussian":
            return (1 + torch.erf(x / math.sqrt(2))) / 2
        if x.abs() >= 1:
            return (x > 0).to(x.dtype)
        return 1 / 2 + 15 / 16 * (x - 2 * x**3 / 3 + x**5 / 5)
