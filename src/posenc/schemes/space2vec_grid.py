"""Space2VecGrid: the grid variant of Space2Vec, sines and cosines of each planar coordinate at geometric scales.

    [sin(x_l / lambda_s), cos(x_l / lambda_s)],  l = 1, 2,   lambda_s = r_min (r_max / r_min)^(s/(S-1)),  s = 0 .. S-1

Source: Mai et al. 2020, arXiv 2003.00824.

Conventions:
- Positions are places on a plane (projected kilometers, pixels, ..) in the unit of r_min and r_max, not longitude and
  latitude.
- Numbers stand axis by axis, within an axis scale by scale, sine before cosine, as in the authors' code (github
  gengchenmai/space2vec).
"""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from posenc.kernels import harmonics
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Space2VecGrid(Scheme):
    """Space2Vec "grid" encoding: ``4 S`` numbers, a sine and a cosine for both axes and every scale.

        [sin(x_l / lambda_s), cos(x_l / lambda_s)],   l = 1, 2,   s = 0 .. S-1

    Args:
        scales: Number S of scales.
        r_min: Shortest lambda, in units of position; its wavelength is ``2 pi r_min``.
        r_max: Longest lambda, in units of position.

    Raises:
        ValueError: If ``scales`` is below 1, or not ``0 < r_min <= r_max``.

    Example:
        >>> import torch
        >>> from posenc import Positions, Space2VecGrid
        >>> scheme = Space2VecGrid(scales=3)
        >>> scheme.embed(scheme.prepare(Positions(torch.rand(5, 2) * 1000))).shape
        torch.Size([5, 12])

    References:
        Mai, Janowicz, Yan, Zhu, Cai and Lao, 2020, "Multi-Scale Representation Learning for Spatial Feature
        Distributions using Grid Cells", arXiv 2003.00824.
    """

    cite = """@inproceedings{mai2020multiscale,
  title={Multi-Scale Representation Learning for Spatial Feature Distributions using Grid Cells},
  author={Mai, Gengchen and Janowicz, Krzysztof and Yan, Bo and Zhu, Rui and Cai, Ling and Lao, Ni},
  booktitle={ICLR}, year={2020}, note={arXiv:2003.00824}}"""
    examples = ({"scales": 3}, {"scales": 3, "r_min": 2.0}, {"scales": 3, "r_max": 100.0})

    def __init__(self, scales: int = 16, *, r_min: float = 10.0, r_max: float = 10000.0) -> None:
        super().__init__()
        harmonics.check_scales("Space2VecGrid", scales, r_min, r_max)
        self.scales, self.r_min, self.r_max = scales, r_min, r_max
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=False,
            range=None,
            axes=2,
            sites=frozenset({"embed"}),
            sharing="model",
            cacheable=True,
        )

    @property
    @override
    def out_dim(self) -> int:
        return 4 * self.scales

    @override
    def prepare(self, pos: Positions) -> Tensor:
        """Compute the rows ``(.., N, out_dim)``, which depend on the positions alone."""
        self._take(pos)
        sin, cos = harmonics.scaled(pos.precise(), self.scales, self.r_min, self.r_max)
        return harmonics.masked_rows(torch.stack([sin, cos], -1).flatten(-3), pos)

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        row = []
        for x_l in p:
            for s in range(self.scales):
                lambda_s = self.r_min * (self.r_max / self.r_min) ** (s / max(self.scales - 1, 1))
                row += [(x_l / lambda_s).sin(), (x_l / lambda_s).cos()]
        return torch.stack(row)
