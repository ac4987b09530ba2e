"""Faults of encodings of coordinates. An exhibit differs from a healthy scheme, its base, in a few lines."""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor, nn

from posenc.kernels.domain import Points
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme
from posenc.schemes.tensorf import TensoRF

CELLS = 3


class Cells(Scheme):
    """A trained row at each of (CELLS + 1)^2 vertices of the unit square, bilinear in between."""

    examples = ({},)
    stride = CELLS + 1

    table: nn.Parameter

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty((CELLS + 1) ** 2, 4))
        self.reset_parameters()
        self.claims = Claims(
            translation="none",
            isometric=False,
            learned=True,
            range=(0, 1),
            axes=2,
            sites=frozenset({"embed"}),
            sharing="layer",
            cacheable=True,
        )

    def reset_parameters(self) -> None:
        nn.init.normal_(self.table)

    @property
    def out_dim(self) -> int:
        return 4

    def prepare(self, pos: Positions) -> Positions:
        return self._take(pos)

    def cell(self, x: Tensor) -> tuple[Tensor, Tensor]:
        low = (x.detach() * CELLS).floor().long().clamp(0, CELLS - 1)
        return low, x * CELLS - low

    def embed(self, where: Positions) -> Tensor:
        low, t = self.cell(where.coords.to(self.table.dtype).clamp(0, 1))
        row = low[..., 0] + self.stride * low[..., 1]
        sides = [torch.lerp(self.table[row + up], self.table[row + up + 1], t[..., :1]) for up in (0, self.stride)]
        y = torch.lerp(*sides, t[..., 1:])
        return y if where.placed is None else y * where.placed[..., None]

    def define_embed(self, p: Tensor) -> Tensor:
        i, j = (min(math.floor(CELLS * u), CELLS - 1) for u in p.tolist())
        s, t = CELLS * p[0] - i, CELLS * p[1] - j
        at = self.table.view(CELLS + 1, CELLS + 1, 4)  # (second axis, first axis)
        low, high = at[j, i] * (1 - s) + at[j, i + 1] * s, at[j + 1, i] * (1 - s) + at[j + 1, i + 1] * s
        return low * (1 - t) + high * t


class StrideOfTheCells(Cells):
    """triton-helpers: (R + 1)^2 vertices with a stride of R, so the end of a line is the beginning of the next."""

    caught_by = "definition.embedding_equals_its_definition"
    stride = CELLS


class NoGradientToCoordinates(Cells):
    """nerfstudio's TensoRF encodings: ``coords.detach()``; surface normals from it are zero."""

    caught_by = "definition.embedding_equals_its_definition"

    def cell(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return super().cell(x.detach())


class GradientToTheFirstCoordinateAlone(Cells):
    """torch-ngp#149: only the first coordinate got a gradient, for a year."""

    caught_by = "definition.embedding_equals_its_definition"

    def cell(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return super().cell(torch.cat([x[..., :1], x[..., 1:].detach()], -1))


class TheMixedDerivativeIsLost(Cells):
    """torch-ngp#7: its backward takes its inputs for constants, so second derivatives lack terms without a word."""

    caught_by = "definition.second_derivatives_equal_those_of_the_definition"

    def embed(self, where: Positions) -> Tensor:
        (i, j), (still_i, still_j) = (coords.split(1, -1) for coords in (where.coords, where.coords.detach()))
        by_i, by_j, value = (
            super(TheMixedDerivativeIsLost, self).embed(dataclasses.replace(where, coords=torch.cat(pair, -1)))
            for pair in ((i, still_j), (still_i, j), (still_i, still_j))
        )
        return by_i + by_j - value


class OutsideIsTakenSilently(Cells):
    """tiny-cuda-nn#286: "what range must inputs have?" It wraps whatever it is given, without a word."""

    caught_by = "claims.range_is_as_claimed"

    def prepare(self, pos: Positions) -> Positions:
        return dataclasses.replace(pos, coords=pos.coords % 1)


class CoordinatesCastByAutocast(Cells):
    """deepearth's Earth4D: under autocast the coordinates are cast to half, a place of 8 bits."""

    caught_by = "precision.autocast_does_not_move_tokens"

    def prepare(self, pos: Positions) -> Positions:
        cast = torch.is_autocast_enabled("cpu") and pos.coords.is_floating_point()
        return super().prepare(dataclasses.replace(pos, coords=pos.coords.bfloat16().float()) if cast else pos)


class UnlocksWithEveryCall(Cells):
    """instant-nsr-pl's progressive mask: what is shown depends on how often it was called, and no state says so."""

    caught_by = "state.using_it_changes_nothing"
    calls = 0

    def embed(self, where: Positions) -> Tensor:
        self.calls += 1
        return super().embed(where) * min(1.0, self.calls / 8)


class ReadsPairsAsComplexNumbers(Cells):
    """Our own grids: two numbers read as one complex one, which torch refuses from an odd place of a vector on."""

    caught_by = "state.parameters_may_be_views_of_one_vector"

    def embed(self, where: Positions) -> Tensor:
        low, t = self.cell(where.coords.to(self.table.dtype).clamp(0, 1))
        row = low[..., 0] + self.stride * low[..., 1]
        pairs = torch.view_as_complex(self.table.unflatten(-1, (-1, 2)))
        sides = [pairs[row + up] + t[..., :1] * (pairs[row + up + 1] - pairs[row + up]) for up in (0, self.stride)]
        y = torch.view_as_real(sides[0] + t[..., 1:] * (sides[1] - sides[0])).flatten(-2)
        return y if where.placed is None else y * where.placed[..., None]


class Directions(Scheme):
    """``[sin, cos](2 pi b_m . v)`` for two random directions of one axis."""

    examples = ({},)
    wide = frozenset({"B"})

    B: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("B", torch.empty(1, 2))
        self.reset_parameters()
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=False,
            range=None,
            axes=1,
            sites=frozenset({"embed"}),
            sharing="model",
            cacheable=True,
        )

    def reset_parameters(self) -> None:
        self.B.normal_()

    @property
    def out_dim(self) -> int:
        return 4

    def prepare(self, pos: Positions) -> Tensor:
        angle = 2 * math.pi * (self._take(pos).precise() @ self.B.double())
        rows = torch.cat([angle.sin(), angle.cos()], -1).to(pos.table_dtype)
        return rows if pos.placed is None else rows * pos.placed[..., None]

    def embed(self, where: Tensor) -> Tensor:
        return where

    def define_embed(self, p: Tensor) -> Tensor:
        return torch.cat([f(2 * math.pi * p[0] * self.B[0]) for f in (torch.sin, torch.cos)])


class DirectionsAreNotSaved(Directions):
    """Made up after random tables that are not saved: a loaded model looks along other directions."""

    caught_by = "state.a_loaded_state_does_the_same"

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("B", self.B, persistent=False)


class DirectionsAreRounded(Directions):
    """Made up after rounded frequencies: directions in half precision turn far coordinates by whole turns."""

    caught_by = "precision.half_precision_does_not_move_tokens"
    wide = frozenset()


class OneOctaveApart(Directions):
    """nerfstudio: its torch path takes 2 pi 2^k where its tiny-cuda-nn path takes pi 2^k."""

    caught_by = "definition.embedding_equals_its_definition"

    def prepare(self, pos: Positions) -> Tensor:
        return super().prepare(dataclasses.replace(pos, coords=pos.coords / 2))


class CoordinatesAreCutOff(TensoRF):
    """nerfstudio's TensorVMEncoding detaches the coordinates, so a field has no gradient by positions or cameras."""

    caught_by = "definition.positions_get_the_gradient_of_the_effect"

    def embed(self, where: Points) -> Tensor:
        return super().embed(where._replace(unit=where.unit.detach()))
