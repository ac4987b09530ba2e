"""Hash grid: one level of a feature grid whose vertices share the rows of a small table by a hash, with interpolation.

    row(v) = (XOR_p (v_p pi_p mod 2^32)) mod T,   pi = 1, 2654435761, 805459861, .. (equation 4)
    e(x) = sum_{c in {0, 1}^P} prod_p (t_p if c_p else 1 - t_p) table[row(floor(R x) + c)],   t = R x - floor(R x)

Source: Müller et al. 2022, arXiv 2201.05989, section 3. The primes after the third are those of github
NVlabs/tiny-cuda-nn.

Conventions:
- Coordinates lie in [0, 1], or in the box ``domain``. There are R cells per axis; the last one ends at x = 1. On an
  axis with "wrap", vertex R is vertex 0.
- Products wrap around as 32-bit integers do. T is a power of two.
- Vertices are hashed even where all of them would fit into the table. ``MultiResolutionGrid`` has dense and hashed
  levels.
- ``interpolation`` is as in ``DenseGrid``.
- The table starts uniform, U(-1e-4, 1e-4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.kernels.domain import UNIT, Points, make_domain
from posenc.kernels.grid_definition import define_row
from posenc.kernels.grid_levels import hashed_level, on_each_axis
from posenc.kernels.interpolation import SPREAD, Interpolation, refuse_unknown, rows_at
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class HashGrid(Scheme):
    """Hashed feature grid of one level with multilinear interpolation, for real positions in a box.

        e(x) = sum_{c in {0, 1}^P} prod_p (t_p if c_p else 1 - t_p) table[row(floor(R x) + c)],   t = R x - floor(R x)

    Args:
        axes: Number P of axes of the positions, at most 7.
        resolution: Number R of cells per axis: one integer, or one for each axis, ``(P,)``.
        features: Width F of a feature vector. Default: 2.
        table_size: Number T of rows of the table, a power of two. Default: 2^19.
        interpolation: "linear", "smoothstep" or "nearest". Default: "linear".
        domain: The box that the grid covers, ``(low, high, outside)`` as in ``posenc.kernels.domain.Box``, each one
            value or one per axis. ``outside`` is the rule for positions outside: "error", "clamp", "wrap" or "zero".
            Default: [0, 1] on every axis, with "error".
        generator: Random generator of the initial table. Default: torch's global generator.

    Raises:
        ValueError: If ``axes``, ``resolution`` or ``features`` is out of range, ``table_size`` is not a power of two,
            ``interpolation`` is unknown, or ``domain`` is not a box on ``axes`` axes.

    Example:
        >>> import torch
        >>> from posenc import HashGrid, Positions
        >>> scheme = HashGrid(axes=3, resolution=64, table_size=2**10)
        >>> scheme.embed(scheme.prepare(Positions(torch.rand(10, 3)))).shape
        torch.Size([10, 2])

    References:
        Müller et al. 2022, arXiv 2201.05989, section 3 and eq. 4.
    """

    cite = """@article{mueller2022instant,
  title={Instant Neural Graphics Primitives with a Multiresolution Hash Encoding},
  author={M{\\"u}ller, Thomas and Evans, Alex and Schied, Christoph and Keller, Alexander},
  journal={ACM Transactions on Graphics}, volume={41}, number={4}, year={2022}, note={arXiv:2201.05989}}"""
    examples = (
        {"axes": 3, "resolution": 7, "table_size": 32},
        {"axes": 2, "resolution": (6, 9), "table_size": 16, "features": 3},
        {"axes": 2, "resolution": 7, "table_size": 32, "interpolation": "smoothstep"},
        {"axes": 2, "resolution": 5, "table_size": 16, "domain": (-3, 60, "wrap")},
    )
    conventions = ("interpolation", "resolution")

    table: nn.Parameter

    def __init__(
        self,
        axes: int,
        resolution: int | Sequence[int],
        features: int = 2,
        *,
        table_size: int = 2**19,
        interpolation: Interpolation = "linear",
        domain: Sequence[Any] = UNIT,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        refuse_unknown(axes, features, interpolation)
        self.domain = make_domain(domain, axes)
        self.levels = (hashed_level(resolution, axes, table_size=table_size, periodic=self.domain.periodic),)
        self.interpolation: Interpolation = interpolation
        self.resolution = on_each_axis(resolution, axes)
        self.table = nn.Parameter(torch.empty(table_size, features))
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
        """Redraw the table; needed after construction on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        nn.init.uniform_(self.table, -SPREAD, SPREAD, generator=generator)

    @property
    @override
    def out_dim(self) -> int:
        return self.table.shape[1]

    @override
    def prepare(self, pos: Positions) -> Points:
        return self.domain.take(self._take(pos))

    @override
    def _refuse_outside(self, pos: Positions) -> None:
        self.domain.refuse_outside(pos, type(self).__name__)

    @override
    def embed(self, where: Points) -> Tensor:
        return rows_at(self.table, where, self.levels, self.interpolation)

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        return define_row(self.table, p, self.levels[0], self.domain, self.interpolation)
