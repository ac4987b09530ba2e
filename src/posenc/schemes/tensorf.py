"""TensoRF: vector-matrix (VM) factors of a feature volume; a trained plane times a trained line for each axis.

    e(x) = [M_01(x_0, x_1) v_2(x_2) | M_02(x_0, x_2) v_1(x_1) | M_12(x_1, x_2) v_0(x_0)]        (section 3)

Each product has C components; planes and lines are interpolated linearly. A volume of R^3 vertices thus has 3 C (R^2 +
R) numbers.

Source: Chen et al. 2022, arXiv 2203.09517, and its order of factors (github apchenstu/TensoRF, TensorVM).

Conventions:
- Coordinates lie in [0, 1], or in the box ``domain``; there are R cells per axis. The authors count R + 1 vertices and
  have [-1, 1]: their 128 with ``align_corners`` is 127 here.
- Factors start as 0.1 times standard normal numbers. The matrix that maps the 3 C components to features is the
  model's.
- The rows have derivatives by the coordinates. nerfstudio's ``TensorVMEncoding`` cuts them off.
- It is equal to the scalar definition and to torch's ``grid_sample``; no implementation of the authors installs here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.kernels.domain import UNIT, Points, make_domain
from posenc.kernels.grid_levels import on_each_axis
from posenc.kernels.interpolation import refuse_unknown
from posenc.kernels.planes import define_factor, factor_rows, lay_out_factors, weighted_scales
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme

PLANES, LINES = ((0, 1), (0, 2), (1, 2)), ((2,), (1,), (0,))
"""Axes of the planes and of the lines that multiply them."""
SIGMA = 0.1
"""Standard deviation of the initial factors."""


class TensoRF(Scheme):
    """Vector-matrix decomposition of TensoRF, for real positions on three axes in a box.

        e(x) = [M_ab(x_a, x_b) v_c(x_c) for the three pairs a < b and the other axis c]

    Args:
        resolution: Number R of cells per axis: one integer, or one for each axis, ``(3,)``. Default: 128.
        components: Components C of each product; rows have 3 C numbers. Default: 16.
        domain: The box that the factors cover, ``(low, high, outside)`` as in ``posenc.kernels.domain.Box``. Default:
            [0, 1] on every axis, with "error" for positions outside.
        generator: Random generator of the initial factors. Default: torch's global generator.

    Raises:
        ValueError: If ``resolution`` or ``components`` is less than 1, or ``domain`` is not a box on three axes.

    Example:
        >>> import torch
        >>> from posenc import Positions, TensoRF
        >>> scheme = TensoRF(resolution=16, components=4)
        >>> scheme.embed(scheme.prepare(Positions(torch.rand(10, 3)))).shape
        torch.Size([10, 12])

    References:
        Chen, Xu, Geiger, Yu and Su 2022, "TensoRF: Tensorial Radiance Fields", arXiv 2203.09517, section 3.
    """

    cite = """@inproceedings{chen2022tensorf,
  title={TensoRF: Tensorial Radiance Fields},
  author={Chen, Anpei and Xu, Zexiang and Geiger, Andreas and Yu, Jingyi and Su, Hao},
  booktitle={ECCV}, year={2022}, note={arXiv:2203.09517}}"""
    examples = (
        {"resolution": 4, "components": 3},
        {"resolution": (3, 2, 5), "components": 2, "domain": (-9, 60, ("clamp", "wrap", "zero"))},
    )

    conventions = ("resolution",)

    table: nn.Parameter

    def __init__(
        self,
        resolution: int | Sequence[int] = 128,
        components: int = 16,
        *,
        domain: Sequence[Any] = UNIT,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        refuse_unknown(3, components, "linear")
        self.domain = make_domain(domain, 3)
        self.factors = lay_out_factors(resolution, (*PLANES, *LINES), self.domain)
        self.resolution = on_each_axis(resolution, 3)
        self.table = nn.Parameter(torch.empty(self.factors[-1].rows.stop, components))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="none",
            isometric=False,
            learned=True,
            range=self.domain.range,
            axes=3,
            sites=frozenset({"embed"}),
            sharing="layer",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the factors; needed after construction on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        nn.init.normal_(self.table, std=SIGMA, generator=generator)

    @property
    @override
    def out_dim(self) -> int:
        return len(PLANES) * self.table.shape[1]

    @override
    def prepare(self, pos: Positions) -> Points:
        return self.domain.take(self._take(pos))

    @override
    def _refuse_outside(self, pos: Positions) -> None:
        self.domain.refuse_outside(pos, type(self).__name__)

    @override
    def embed(self, where: Points) -> Tensor:
        rows = factor_rows(self.table, where, self.factors)
        planes, lines = torch.cat(rows[: len(PLANES)], -1), torch.cat(rows[len(PLANES) :], -1)
        return weighted_scales([planes * lines], where)

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        planes, lines = self.factors[: len(PLANES)], self.factors[len(PLANES) :]
        define = [define_factor(self.table, p, factor, self.domain) for factor in (*planes, *lines)]
        return torch.cat([plane * line for plane, line in zip(define[:3], define[3:], strict=True)])
