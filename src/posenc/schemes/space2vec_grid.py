"""Space2VecGrid: sines and cosines of each coordinate of a place on a plane, at scales from r_min to r_max.

    [sin(x_l / lambda_s), cos(x_l / lambda_s)],  l = 1, 2,   lambda_s = r_min (r_max / r_min)^(s/(S-1)),  s = 0 .. S-1

Source: Mai et al. 2020, arXiv 2003.00824. Conventions: positions are places on a plane (projected kilometres, pixels,
..) in the unit of r_min and r_max, and not longitude and latitude; axis by axis, within an axis scale by scale;
sine before cosine, all as in their code (github gengchenmai/space2vec).
"""

from __future__ import annotations

import torch
from torch import Tensor

from posenc.kernels import harmonics
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Space2VecGrid(Scheme):
    """``[sin(x_l / lambda_s), cos(x_l / lambda_s)]`` for both axes l and every scale s, ``4 S`` numbers.

    scales: S. r_min, r_max: the shortest and the longest lambda, in units of position; a wave is ``2 pi lambda`` long.
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
    def out_dim(self) -> int:
        return 4 * self.scales

    def prepare(self, pos: Positions) -> Tensor:
        """The finished rows ``(.., N, out_dim)``."""
        self._take(pos)
        sin, cos = harmonics.scaled(pos.precise(), self.scales, self.r_min, self.r_max)
        return harmonics.finish(torch.stack([sin, cos], -1).flatten(-3), pos)

    def embed(self, where: Tensor) -> Tensor:
        return where

    def define_embed(self, p: Tensor) -> Tensor:
        row = []
        for along in p:
            for s in range(self.scales):
                shorter = self.r_min * (self.r_max / self.r_min) ** (s / max(self.scales - 1, 1))
                row += [(along / shorter).sin(), (along / shorter).cos()]
        return torch.stack(row)
