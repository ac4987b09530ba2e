"""KPlanes: K-Planes; one trained feature plane for each pair of axes, whose interpolated features are multiplied.

    f_R(x) = prod over pairs a < b of P_ab(x_a, x_b)      elementwise, with bilinear interpolation on (R + 1)^2 vertices
    e(x) = [f_R1(x) | f_R2(x) | ..]                                                       (eqs. 1 and 2, section 3.1)

On P axes there are P (P - 1) / 2 planes for each resolution, so the number of parameters grows with R^2.

Source: Fridovich-Keil et al. 2023, arXiv 2301.10241; initial values as in nerfstudio's K-Planes field.

Conventions:
- Coordinates lie in [0, 1], or in the box ``domain``; there are R cells per axis. The authors count R + 1 vertices and
  have [-1, 1]: their resolution 64 with ``align_corners`` is 63 here.
- The rule of the authors for points outside, the border's value, is ``domain=(0, 1, "clamp")``.
- Space planes start uniform in [0.1, 0.5]. Planes with the axis ``time`` start at 1, so that a scene starts without
  motion.
- ``posenc.kernels.domain.weight_levels`` weights the resolutions for coarse-to-fine training.
- It is equal to the scalar definition and to torch's ``grid_sample``; no implementation of the authors installs here.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence, Sized
from functools import reduce
from operator import mul
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.kernels.domain import UNIT, Points, make_domain
from posenc.kernels.grid_levels import on_each_axis
from posenc.kernels.interpolation import refuse_unknown
from posenc.kernels.planes import Factor, define_factor, factor_rows, lay_out_factors, weighted_scales
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme

LOW, HIGH = 0.1, 0.5
"""Interval of the initial values of space planes, in nerfstudio."""


class KPlanes(Scheme):
    """K-Planes: products of trained feature planes, one for each pair of axes, for real positions in a box.

        e(x) = [prod over pairs a < b of P_ab^R(x_a, x_b) for each resolution R]

    Args:
        axes: Number P of axes of the positions, at least 2.
        resolutions: Cells per axis of each scale: one integer, or one for each axis, ``(P,)``. Default: 64, 128, 256.
        features: Features F of a plane; rows have F numbers for each scale. Default: 8.
        time: The axis whose planes start at 1, such as 3 for (x, y, z, t). Default: none.
        domain: The box that the planes cover, ``(low, high, outside)`` as in ``posenc.kernels.domain.Box``. Default:
            [0, 1] on every axis, with "error" for positions outside.
        generator: Random generator of the initial planes. Default: torch's global generator.

    Raises:
        ValueError: If ``axes`` is not a whole number of at least 2, ``features`` of at least 1, ``resolutions`` not
            several or one less than 1, ``time`` is no axis, or ``domain`` is not a box on ``axes`` axes.

    Example:
        >>> import torch
        >>> from posenc import KPlanes, Positions
        >>> scheme = KPlanes(axes=3, resolutions=(8, 16), features=4)
        >>> scheme.embed(scheme.prepare(Positions(torch.rand(10, 3)))).shape
        torch.Size([10, 8])

    References:
        Fridovich-Keil, Meanti, Warburg, Recht and Kanazawa 2023, "K-Planes: Explicit Radiance Fields in Space, Time,
        and Appearance", arXiv 2301.10241, section 3.1.
    """

    cite = """@inproceedings{fridovich2023kplanes,
  title={K-Planes: Explicit Radiance Fields in Space, Time, and Appearance},
  author={Fridovich-Keil, Sara and Meanti, Giacomo and Warburg, Frederik and Recht, Benjamin and Kanazawa, Angjoo},
  booktitle={CVPR}, year={2023}, note={arXiv:2301.10241}}"""
    examples = (
        {"axes": 3, "resolutions": (3, (2, 4, 5)), "features": 3},
        {"axes": 4, "resolutions": (3,), "features": 2, "time": 3, "domain": (-9, 60, "clamp")},
        {"axes": 2, "resolutions": (2, 4), "features": 3},
    )

    conventions = ("resolutions",)

    table: nn.Parameter

    def __init__(
        self,
        axes: int,
        resolutions: Sequence[int | Sequence[int]] = (64, 128, 256),
        features: int = 8,
        *,
        time: int | None = None,
        domain: Sequence[Any] = UNIT,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        refuse_unknown(axes, features, "linear")
        if isinstance(resolutions, str) or not isinstance(resolutions, Sized):
            raise ValueError(
                f"KPlanes has a resolution for each scale, as KPlanes({axes}, resolutions=(64, 128)); got "
                f"resolutions={resolutions!r}. For one scale write a tuple of one: resolutions=(64,)."
            )
        if axes < 2 or not len(resolutions) or (time is not None and time not in range(axes)):
            raise ValueError(
                "KPlanes has a plane for each pair of axes, so axes >= 2; at least one resolution; and `time` is an "
                f"axis from 0; got axes={axes}, {len(resolutions)} resolutions, time={time!r}. Write "
                "KPlanes(4, time=3)."
            )
        self.domain, self.time = make_domain(domain, axes), time
        self.scales: list[tuple[Factor, ...]] = []
        for resolution in resolutions:
            first = self.scales[-1][-1].rows.stop if self.scales else 0
            pairs = list(itertools.combinations(range(axes), 2))
            self.scales.append(lay_out_factors(resolution, pairs, self.domain, first))
        self.resolutions = tuple(on_each_axis(each, axes) for each in resolutions)
        self.table = nn.Parameter(torch.empty(self.scales[-1][-1].rows.stop, features))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="none",
            isometric=False,
            learned=True,
            range=self.domain.range,
            axes=axes,
            sites=frozenset({"embed"}),
            sharing="layer",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the planes; needed after construction on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        nn.init.uniform_(self.table, LOW, HIGH, generator=generator)
        with torch.no_grad():
            for plane in itertools.chain(*self.scales):
                if self.time in plane.axes:
                    self.table[plane.rows] = 1.0

    @property
    @override
    def out_dim(self) -> int:
        return len(self.scales) * self.table.shape[1]

    @override
    def prepare(self, pos: Positions) -> Points:
        return self.domain.take(self._take(pos))

    @override
    def _refuse_outside(self, pos: Positions) -> None:
        self.domain.refuse_outside(pos, type(self).__name__)

    @override
    def embed(self, where: Points) -> Tensor:
        return weighted_scales([reduce(mul, factor_rows(self.table, where, planes)) for planes in self.scales], where)

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        scales = []
        for planes in self.scales:
            features = torch.ones_like(self.table[0])
            for plane in planes:
                features = features * define_factor(self.table, p, plane, self.domain)
            scales.append(features)
        return torch.cat(scales)
