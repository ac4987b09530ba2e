"""OneBlob: a smoothed one-hot vector for each coordinate, the integral of a kernel over each of K bins.

    e_pk(v) = F(K ((k+1)/K - u_p)) - F(K (k/K - u_p)),    u = (v - low) / (high - low),    k = 0 .. K-1
    F(x) = (1 + erf(x / sqrt 2)) / 2                            kernel "gaussian": standard deviation of one bin
    F(x) = 1/2 + 15/16 (x - 2 x^3 / 3 + x^5 / 5),  |x| <= 1     kernel "quartic": support of one bin to either side

Source: Müller et al. 2019, arXiv 1808.03856, section 4.3.

Conventions:
- Numbers stand axis by axis, within an axis bin by bin.
- The kernel is cut off at the ends of an axis, unless ``domain`` says "wrap": then it continues at the other end.
- The paper's kernel is Gaussian. tiny-cuda-nn's is quartic and wraps every axis: ``kernel="quartic", domain=(0, 1,
  "wrap")``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from typing_extensions import override

from posenc.kernels.domain import UNIT, make_domain
from posenc.kernels.grid_definition import define_unit
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme

Kernel = Literal["gaussian", "quartic"]


class OneBlob(Scheme):
    """OneBlob encoding: ``e_pk(v)`` is the part of a kernel around coordinate p that lies in bin k.

        e_pk(v) = F(K ((k+1)/K - u_p)) - F(K (k/K - u_p)),    u = (v - low) / (high - low)

    Args:
        axes: Number P of position axes.
        bins: Number K of bins of each axis; rows have ``P * K`` numbers, none above 1.
        kernel: "gaussian" (the paper's) or "quartic" (tiny-cuda-nn's).
        domain: ``Box(low, high, outside)`` that the bins divide, in units of position, with the rule for positions
            outside: "error", "clamp", "wrap" or "zero". Default: [0, 1] on every axis, "error".

    Raises:
        ValueError: If ``axes`` is below 1, ``bins`` below 2, or ``kernel`` or ``domain`` invalid.

    Example:
        >>> import torch
        >>> from posenc import OneBlob, Positions
        >>> scheme = OneBlob(axes=2, bins=8)
        >>> scheme.embed(scheme.prepare(Positions(torch.rand(5, 2)))).shape
        torch.Size([5, 16])

    References:
        Müller, McWilliams, Rousselle, Gross and Novák, 2019, "Neural Importance Sampling", arXiv 1808.03856,
        section 4.3.
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
        self.axes, self.bins, self.domain = axes, bins, make_domain(domain, axes)
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
    @override
    def out_dim(self) -> int:
        return self.axes * self.bins

    @override
    def prepare(self, pos: Positions) -> Tensor:
        """Compute the rows ``(.., N, P * K)``, which depend on the positions alone."""
        points = self.domain.take(self._take(pos))
        edges = torch.arange(self.bins + 1, dtype=points.unit.dtype, device=points.unit.device)
        offset = edges - self.bins * points.unit[..., None]  # (.., N, P, K + 1), in bins
        below = self._cdf(offset)
        if any(self.domain.periodic):
            periodic = torch.tensor(self.domain.periodic, dtype=below.dtype, device=below.device)[:, None]
            images = [self._cdf(offset + turn * self.bins) for turn in self._turns if turn]
            below = below + periodic * torch.stack(images).sum(0)
        rows = below.diff(dim=-1).flatten(-2).to(pos.table_dtype)
        return rows if points.inside is None else rows * points.inside[..., None]

    @override
    def _refuse_outside(self, pos: Positions) -> None:
        self.domain.refuse_outside(pos, type(self).__name__)

    @property
    def _turns(self) -> range:
        """Periods of a wrapped axis at which a kernel has an image: enough for six bins to either side."""
        most = math.ceil(6 / self.bins)
        return range(-most, most + 1)

    def _cdf(self, x: Tensor) -> Tensor:
        """``F``: the integral of the kernel up to an edge that lies ``x`` bins above its center."""
        if self.kernel == "gaussian":
            return 0.5 * torch.erf(x * math.sqrt(0.5)) + 0.5
        x = x.clamp(-1, 1)
        square = x * x
        return 0.9375 * x * (1 - square * (2 / 3 - square / 5)) + 0.5

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        unit = define_unit(p, self.domain)
        if unit is None:
            return torch.zeros(self.out_dim, dtype=p.dtype)
        row = []
        for u, wraps in zip(unit, self.domain.periodic, strict=True):
            for k in range(self.bins):
                whole = torch.zeros((), dtype=p.dtype)
                for center in [u + turn for turn in self._turns] if wraps else [u]:
                    edges = ((k + 1) / self.bins - center) * self.bins, (k / self.bins - center) * self.bins
                    upper, lower = (self._define_cdf(edge) for edge in edges)
                    whole = whole + upper - lower
                row.append(whole)
        return torch.stack(row)

    def _define_cdf(self, x: Tensor) -> Tensor:
        if self.kernel == "gaussian":
            return (1 + torch.erf(x / math.sqrt(2))) / 2
        if x.abs() >= 1:
            return (x > 0).to(x.dtype)
        return 1 / 2 + 15 / 16 * (x - 2 * x**3 / 3 + x**5 / 5)
