"""Space2VecTheory: the theory variant of Space2Vec, sines and cosines along three directions 120 degrees apart.

    [sin(x . a_j / lambda_s), cos(x . a_j / lambda_s)],  a_j at 0, 120 and 240 degrees from the first axis
    lambda_s = r_min (r_max / r_min)^(s/(S-1)),  s = 0 .. S-1

Source: Mai et al. 2020, arXiv 2003.00824.

Conventions:
- Positions are places on a plane (projected kilometers, pixels, ..) in the unit of r_min and r_max, not longitude and
  latitude.
- Numbers stand scale by scale, within a scale direction by direction, sine before cosine, as in the authors' code
  (github gengchenmai/space2vec).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from typing_extensions import override

from posenc.kernels import harmonics, simplex
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Space2VecTheory(Scheme):
    """Space2Vec "theory" encoding: ``6 S`` numbers, a sine and a cosine for three directions and every scale.

        [sin(x . a_j / lambda_s), cos(x . a_j / lambda_s)],   j = 1, 2, 3,   s = 0 .. S-1

    Args:
        scales: Number S of scales.
        r_min: Shortest lambda, in units of position; its wavelength is ``2 pi r_min``.
        r_max: Longest lambda, in units of position.

    Raises:
        ValueError: If ``scales`` is below 1, or not ``0 < r_min <= r_max``.

    Example:
        >>> import torch
        >>> from posenc import Positions, Space2VecTheory
        >>> scheme = Space2VecTheory(scales=3)
        >>> scheme.embed(scheme.prepare(Positions(torch.rand(5, 2) * 1000))).shape
        torch.Size([5, 18])

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
        harmonics.check_scales("Space2VecTheory", scales, r_min, r_max)
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
        return 6 * self.scales

    @override
    def prepare(self, pos: Positions) -> Tensor:
        """Compute the rows ``(.., N, out_dim)``, which depend on the positions alone."""
        self._take(pos)
        along = pos.precise() @ simplex.directions(2).to(pos.coords.device).mT
        sin, cos = harmonics.scaled(along, self.scales, self.r_min, self.r_max)
        return harmonics.masked_rows(torch.stack([sin, cos], -1).transpose(-3, -2).flatten(-3), pos)

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        row = []
        for s in range(self.scales):
            lambda_s = self.r_min * (self.r_max / self.r_min) ** (s / max(self.scales - 1, 1))
            for degrees in (0, 120, 240):
                along = p[0] * math.cos(math.radians(degrees)) + p[1] * math.sin(math.radians(degrees))
                row += [(along / lambda_s).sin(), (along / lambda_s).cos()]
        return torch.stack(row)
