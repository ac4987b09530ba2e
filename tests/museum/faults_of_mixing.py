"""Faults of schemes that look at neighbours. Each exhibit differs from a healthy scheme, its base, in a few lines."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Blur(Scheme):
    """``x_n + w_-1 x_{n-1} + w_0 x_n + w_1 x_{n+1}`` on a row of tokens, zeros past its ends."""

    examples = ({},)

    def __init__(self) -> None:
        super().__init__()
        self.taps = nn.Parameter(torch.empty(3))
        self.reset_parameters()
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=True,
            range=None,
            axes=1,
            sites=frozenset({"mix"}),
            sharing="layer",
            cacheable=False,
        )

    def reset_parameters(self) -> None:
        nn.init.normal_(self.taps)

    def prepare(self, pos: Positions) -> Positions:
        if self._take(pos).lattice is None:
            raise ValueError("Blur looks at neighbours and needs a full row, as sequence(n).")
        return pos

    def mix(self, x: Tensor, where: Positions) -> Tensor:
        cut = 0 if where.placed is None else x.shape[-2] - where.lattice[0]
        kernel = self.taps.to(x.dtype).expand(x.shape[-1], 1, 3)
        row = x[:, cut:]
        blurred = functional.conv1d(row.mT, kernel, padding=1, groups=x.shape[-1]).mT if row.shape[1] else row
        return torch.cat([x[:, :cut], row + blurred], 1)

    def define_mix(self, x: Tensor, pos: Positions, n: int) -> Tensor:
        near = [self.taps[i] * x[n + i - 1] for i in range(3) if 0 <= n + i - 1 < len(x)]
        return x[n] + torch.stack(near).sum(0)


class ConvolvesWhereItCorrelates(Blur):
    """Ports of PEG from other libraries: the kernel is mirrored, which no shape shows."""

    caught_by = "definition.mixing_equals_its_definition"

    def mix(self, x: Tensor, where: Positions) -> Tensor:
        return super().mix(x.flip(1), where).flip(1)


class ClassTokenIsMixed(Blur):
    """CPVT's note: the class token must be cut off before the convolution, or it is the first pixel's neighbour."""

    caught_by = "placement.tokens_without_a_place_are_neutral"

    def mix(self, x: Tensor, where: Positions) -> Tensor:
        return super().mix(x, Positions(where.coords))


class SamplesAreMixed(Blur):
    """Made up for the check: batch and row are folded, so the end of a sample is a neighbour of the next one."""

    caught_by = "placement.a_batch_of_positions_equals_one_at_a_time"

    def mix(self, x: Tensor, where: Positions) -> Tensor:
        return super().mix(x.flatten(0, 1)[None], where)[0].unflatten(0, x.shape[:2])
