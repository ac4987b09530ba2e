"""SCTorus: row, column and one diagonal as angles on three circles, so that inner products depend on offsets alone.

    u = [cos, sin](row delta) + [cos, sin](column delta) + [cos, sin]((row + column) delta)   (concatenated, / sqrt(3))
    delta = pi / (2 (2n - 1))

Three plane waves in oblique directions, as in GridPE: translation invariant, of unit length, with no negative number
inside the grid. On 28 x 28 pixels (1,1) and (2,2) have cosine similarity 0.999184, (1,2) and (2,1) 0.999728.
``diagonal="minus"`` takes ``row - column`` and exchanges these two values; its sine may be negative.

Source: a remedy for the flaws of Cui 2024, "CNN with SC PE" (github Cui-Peng-624/SC-Position-Encoding); the remedy
itself is not in that note.

Conventions: positions are (row, column), start at 0 and may be any real numbers; ``hidden`` as in SCPE.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from posenc.kernels import readout
from posenc.kernels.readout import PreparedRows, Readout, Relu
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class SCTorus(Scheme):
    """Encoding of a pixel by three angles on circles: row, column and a diagonal.

        u = [cos r, sin r, cos c, sin c, cos(r + c), sin(r + c)] / sqrt(3),   r = row delta,  c = column delta

    Args:
        n: Side in pixels of the grid on which no number is negative; any real position is accepted.
        diagonal: Direction of the third wave: "plus" for ``row + column``, "minus" for ``row - column``.
        hidden: Widths of the hidden layers of the readout to one number; None for the six numbers themselves.
        relu: If False, no ReLU follows the hidden layers; or one value for each of them. Default: True.
        generator: Random generator for the readout's weights; torch's default generator if None.

    Raises:
        ValueError: If ``n`` is below 1, ``diagonal`` is unknown, or a hidden layer has no unit.

    Example:
        >>> from posenc import SCTorus, grid
        >>> scheme = SCTorus(28)
        >>> scheme.embed(scheme.prepare(grid(28, 28))).shape
        torch.Size([784, 6])

    References:
        Cui, 2024, "CNN with SC PE", section 4, github Cui-Peng-624/SC-Position-Encoding (not on arXiv).
    """

    cite = """@misc{cui2024scpe,
  title={CNN with SC PE},
  author={Cui, Peng}, year={2024},
  howpublished={github.com/Cui-Peng-624/SC-Position-Encoding}, note={not on arXiv}}"""
    examples = (
        {"n": 28},
        {"n": 28, "diagonal": "minus"},
        {"n": 28, "hidden": (128,)},
        {"n": 28, "hidden": (8, 4), "relu": (True, False)},
    )
    conventions = ("diagonal",)

    readout: Readout | None

    def __init__(
        self,
        n: int,
        *,
        diagonal: Literal["plus", "minus"] = "plus",
        hidden: Sequence[int] | None = None,
        relu: Relu = True,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if n < 1:
            raise ValueError(f"SCTorus needs a grid of side n >= 1; got n={n}.")
        if diagonal not in ("plus", "minus"):
            raise ValueError(f"SCTorus' third wave runs along 'plus', row + column, or 'minus'; got {diagonal!r}.")
        self.diagonal, self.sign = diagonal, 1 if diagonal == "plus" else -1
        self.delta = math.pi / (2 * (2 * n - 1))
        self.readout = readout.optional(6, hidden, relu)
        self.reset_parameters(generator)
        self.claims = Claims(
            # In the mean over random weights a readout depends on inner products alone, which a translation keeps.
            # This is exact for normal weights; for uniform ones six million draws show no difference.
            translation="exact" if hidden is None else "expected",
            isometric=hidden is None,
            learned=hidden is not None,
            range=None,
            axes=2,
            sites=frozenset({"embed"}),
            sharing="model" if hidden is None else "layer",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the readout's initial weights again, also after the module was built on the meta device.

        Args:
            generator: Random generator; torch's default generator if None.
        """
        if self.readout is not None:
            self.readout.reset_parameters(generator)

    @property
    @override
    def out_dim(self) -> int:
        return 6 if self.readout is None else 1

    @override
    def prepare(self, pos: Positions) -> PreparedRows:
        row, column = (self._take(pos).precise() * self.delta).unbind(-1)
        angle = torch.stack([row, column, row + self.sign * column], -1)
        rows = torch.stack([angle.cos(), angle.sin()], -1).flatten(-2) / math.sqrt(3)
        return readout.points(rows, pos)

    @override
    def embed(self, where: PreparedRows) -> Tensor:
        return readout.read(where, self.readout)

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        row = []
        for weights in ((1, 0), (0, 1), (1, self.sign)):
            angle = self.delta * (weights[0] * p[0] + weights[1] * p[1])
            row += [torch.cos(angle) / math.sqrt(3), torch.sin(angle) / math.sqrt(3)]
        return readout.define(torch.stack(row), self.readout)
