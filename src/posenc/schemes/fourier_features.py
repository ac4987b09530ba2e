"""Fourier features: sines and cosines of projections on fixed random directions, or on trained ones.

    gamma(v) = [a_m sin(2 pi b_m . v), a_m cos(2 pi b_m . v)],  m = 1 .. L
    gamma(v) . gamma(v') = sum_m a_m^2 cos(2 pi b_m . (v - v'))

The inner product depends on v - v' alone, whatever B and a are. Source: Rahimi and Recht 2007; Tancik et al. 2020,
arXiv 2006.10739, equations 3 and 5 (there cosine first). Conventions: sine before cosine, m by m; B in cycles a unit of
position, hence the 2 pi; coordinates of any size, the paper's from 0 to 1. The directions are
``kernels.wave_vectors.draw``: "gaussian" N(0, sigma^2), "basic" sigma e_p, "positional" sigma^(j/J) e_p (not NeRF's,
which is sigma = 2^J and half the frequency), "released" what their code has for it. They are saved, trained or not, so
that a loaded model has its own again, and stay in float32 when the module is cast; turns are counted in float64.

Coarse to fine: ``embed(weigh(prepare(pos), weights))`` of ``kernels.domain`` with a weight for each direction, of J
frequencies on each of P axes ``coarse_to_fine(progress, J).repeat(P)`` (BARF, arXiv 2104.06405).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import get_args

import torch
from torch import Tensor, nn

from posenc.kernels.wave_vectors import Directions, Waves, angles, draw
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class FourierFeatures(Scheme):
    """``gamma(v) = [a_m sin, a_m cos](2 pi b_m . v)``; rows have length ``sqrt(sum a_m^2)``.

    dim: width 2 L. axes: P. directions: first B, see above. sigma: their size, cycles a unit of position.
    amplitudes: ``a_m``, L numbers (``power_law(L, p)``), all 1 otherwise. learned: B is trained. generator: of the
    draw; torch's default generator otherwise.
    """

    cite = """@inproceedings{tancik2020fourier,
  title={Fourier Features Let Networks Learn High Frequency Functions in Low Dimensional Domains},
  author={Tancik, Matthew and Srinivasan, Pratul and Mildenhall, Ben and Fridovich-Keil, Sara and Raghavan, Nithin
          and Singhal, Utkarsh and Ramamoorthi, Ravi and Barron, Jonathan and Ng, Ren},
  booktitle={NeurIPS}, year={2020}, note={arXiv:2006.10739}}"""
    examples = (
        {"dim": 12, "axes": 2},
        {"dim": 12, "axes": 2, "sigma": 0.1},
        {"dim": 12, "axes": 2, "learned": True, "sigma": 0.3},
        {"dim": 12, "amplitudes": (1.0, 0.5, 0.25, 0.2, 0.1, 0.0)},
        {"dim": 6, "axes": 3, "directions": "basic", "sigma": 0.03},
        {"dim": 12, "axes": 2, "directions": "positional", "sigma": 0.05},
        {"dim": 12, "axes": 2, "directions": "released", "sigma": 1.1},
    )
    wide = frozenset({"B"})

    B: Tensor

    def __init__(
        self,
        dim: int,
        axes: int = 1,
        *,
        directions: Directions = "gaussian",
        sigma: float = 1.0,
        amplitudes: Sequence[float] | Tensor | None = None,
        learned: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if dim < 2 or dim % 2 or axes < 1:
            raise ValueError(
                f"FourierFeatures has a sine and a cosine for each direction, so `dim` is even, on at least one axis; "
                f"got dim={dim}, axes={axes}. Use dim={max(dim + dim % 2, 2)}, axes={max(axes, 1)}."
            )
        if directions not in get_args(Directions):
            raise ValueError(f"directions are {', '.join(map(repr, get_args(Directions)))}; got {directions!r}.")
        if not (math.isfinite(sigma) and sigma > 0):
            raise ValueError(f"sigma is the size of the directions, a positive number; got {sigma:g}.")
        _refuse_misfit(dim, axes, directions, sigma)
        numbers = [1.0] * (dim // 2) if amplitudes is None else [float(a) for a in amplitudes]
        if len(numbers) != dim // 2 or not all(map(math.isfinite, numbers)):
            raise ValueError(
                f"{dim // 2} directions need as many finite amplitudes; got {len(numbers)}. As "
                f"power_law({dim // 2}, 1)."
            )
        self.directions: Directions = directions
        self.sigma, self.amplitudes = float(sigma), tuple(numbers)
        B = torch.empty(dim // 2, axes)
        if learned:
            self.B = nn.Parameter(B)
        else:
            self.register_buffer("B", B)
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=learned,
            range=None,
            axes=axes,
            sites=frozenset({"embed"}),
            sharing="model",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the directions anew (also after building on the meta device)."""
        with torch.no_grad():
            draw(self.B, self.directions, self.sigma, generator)

    @property
    def out_dim(self) -> int:
        return 2 * len(self.amplitudes)

    def prepare(self, pos: Positions) -> Waves:
        turns = self._take(pos).precise() @ self.B.double().T
        angle = angles(turns, pos.table_dtype)
        a = torch.tensor(self.amplitudes, dtype=angle.dtype, device=angle.device)
        rows = torch.stack([a * angle.sin(), a * angle.cos()], -1).flatten(-2)
        return Waves(rows if pos.placed is None else rows * pos.placed[..., None])

    def embed(self, where: Waves) -> Tensor:
        rows, weights = where
        if weights is None:
            return rows
        if weights.shape[-1] != len(self.B):
            raise ValueError(f"{len(self.B)} directions need a weight each; got shape {tuple(weights.shape)}.")
        return rows * weights.to(rows.dtype).repeat_interleave(2, -1)

    def define_embed(self, p: Tensor) -> Tensor:
        row = []
        for a_m, b_m in zip(self.amplitudes, self.B, strict=True):
            alpha = 2 * math.pi * torch.dot(b_m, p)
            row += [a_m * torch.sin(alpha), a_m * torch.cos(alpha)]
        return torch.stack(row)


def _refuse_misfit(dim: int, axes: int, directions: Directions, sigma: float) -> None:
    if directions == "basic" and dim != 2 * axes:
        raise ValueError(f"the basic mapping has one direction an axis, so `dim` is 2 axes = {2 * axes}; got {dim}.")
    if directions in ("positional", "released") and dim % (2 * axes):
        raise ValueError(
            f"the {directions} mapping gives each of {axes} axes as many frequencies, so `dim` is a multiple of "
            f"{2 * axes}; got {dim}. Use {max(dim // (2 * axes), 1) * 2 * axes}."
        )
    alike = sigma == 1 if dim > 2 * axes else directions == "released"  # whose first frequency is 0
    if directions in ("positional", "released") and alike:
        raise ValueError(
            f"with sigma={sigma:g} and dim={dim} all frequencies of the {directions} mapping are one. Use sigma=2**J "
            "for J of them, or the highest that the data has, and dim = 2 J axes with J >= 2."
        )
