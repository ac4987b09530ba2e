"""Fourier features: sines and cosines of projections of the position on random or trained directions.

    gamma(v) = [a_m sin(2 pi b_m . v), a_m cos(2 pi b_m . v)],  m = 1 .. L
    gamma(v) . gamma(v') = sum_m a_m^2 cos(2 pi b_m . (v - v'))

The inner product depends on v - v' alone, for any directions B and amplitudes a.

Source: Rahimi and Recht 2007; Tancik et al. 2020, arXiv 2006.10739, equations 3 and 5.

Conventions:
- The sine stands before the cosine, for m = 1, 2, .. in turn. The paper has the cosine first.
- B is in cycles per unit of position, hence the 2 pi. Coordinates are any real numbers; the paper's lie in [0, 1].
- ``directions`` names the initial B, see ``posenc.kernels.wave_vectors.draw``. "positional" is not the encoding of
  NeRF, which has sigma = 2^J and half the frequencies.
- B is saved with the model, trained or not. It stays in float32 when the module is cast. Phases are reduced in
  float64.

Coarse to fine (BARF, arXiv 2104.06405): ``scheme.embed(weight_levels(scheme.prepare(pos), weights))`` with ``weigh`` of
``posenc.kernels.domain`` and one weight per direction. For J frequencies on each of P axes the weights are
``coarse_to_fine(progress, J).repeat(P)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import get_args

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.frequencies import from_span
from posenc.kernels import wave_vectors
from posenc.kernels.wave_vectors import Directions, GivenFrequencies, Waves, angles, draw, frequency_numbers
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class FourierFeatures(Scheme):
    """Fourier feature mapping with random or trained directions, for real positions on any number of axes.

        gamma(v) = [a_m sin(2 pi b_m . v), a_m cos(2 pi b_m . v)],  m = 1 .. L

    Every embedding has the norm ``sqrt(sum a_m^2)``.

    Args:
        dim: Width 2 L of the embedding, even.
        axes: Number P of axes of the positions. Default: 1.
        directions: Initial directions ``b_m``: "gaussian" for N(0, sigma^2 I); "basic" for ``sigma e_p``, one per
            axis; "positional" for ``sigma^(j/J) e_p``, j = 0 .. J - 1; "released" for ``(sigma^(j/(J-1)) - 1) e_p``, as
            in the authors' code. Default: "gaussian".
        sigma: Size of the directions, positive, in cycles per unit of position. Default: 1.
        amplitudes: Amplitudes ``a_m``, ``(L,)``, for example ``posenc.kernels.wave_vectors.power_law(L, p)``. Default:
            1 for each direction.
        learned: Whether B is trained. Default: False.
        frequencies: Initial frequencies of L directions on one axis in place of ``directions``, as numbers or a tensor,
            in radians per unit of position, as of ``posenc.frequencies.periods``. Default: None.
        generator: Random generator of the initial directions. Default: torch's global generator.

    Raises:
        ValueError: If ``dim`` is odd or does not suit ``directions``, ``axes`` is less than 1, ``directions`` is
            unknown, ``sigma`` is not positive and finite, ``amplitudes`` are not L finite numbers, or ``sigma`` makes
            the frequencies of all directions equal.

    Example:
        >>> from posenc import FourierFeatures, grid
        >>> scheme = FourierFeatures(dim=12, axes=2, sigma=0.1)
        >>> scheme.embed(scheme.prepare(grid(4, 4))).shape
        torch.Size([16, 12])

    References:
        Rahimi and Recht 2007, Random features for large-scale kernel machines.
        Tancik et al. 2020, arXiv 2006.10739, eqs. 3 and 5.
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
        {"dim": 12, "frequencies": from_span(6, shortest=3.0, longest=50.0)},
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
        frequencies: GivenFrequencies | None = None,
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
        wave_vectors.refuse_misfit(dim, axes, directions, sigma)
        if frequencies is not None and (axes, directions, sigma) != (1, "gaussian", 1):
            raise ValueError("`frequencies` are directions of one axis: leave `axes`, `directions` and `sigma` out.")
        name = f"FourierFeatures({dim})"
        self.frequencies = None if frequencies is None else frequency_numbers(frequencies, dim // 2, name)
        n = dim // 2
        a = [1.0] * n if amplitudes is None else [float(amplitude) for amplitude in amplitudes]
        if len(a) != n or not all(map(math.isfinite, a)):
            raise ValueError(f"{n} directions need as many finite amplitudes; got {len(a)}. As power_law({n}, 1).")
        self.directions: Directions = directions
        self.sigma, self.amplitudes = float(sigma), tuple(a)
        B = torch.empty(n, axes)
        self.B = nn.Parameter(B) if learned else nn.Buffer(B)
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
        """Redraw the directions; needed after construction on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        with torch.no_grad():
            if self.frequencies is not None:
                self.B.copy_(torch.tensor(self.frequencies, dtype=torch.float64, device="cpu")[:, None] / (2 * math.pi))
                return
            draw(self.B, self.directions, self.sigma, generator)

    @property
    @override
    def out_dim(self) -> int:
        return 2 * len(self.amplitudes)

    @override
    def prepare(self, pos: Positions) -> Waves:
        angle = angles(self._take(pos).precise() @ self.B.double().T, pos.table_dtype)
        a = torch.tensor(self.amplitudes, dtype=angle.dtype, device=angle.device)
        rows = torch.stack([a * angle.sin(), a * angle.cos()], -1).flatten(-2)
        return Waves(rows if pos.placed is None else rows * pos.placed[..., None])

    @override
    def embed(self, where: Waves) -> Tensor:
        rows, weights = where
        if weights is None:
            return rows
        if weights.shape[-1] != len(self.B):
            raise ValueError(f"{len(self.B)} directions need a weight each; got shape {tuple(weights.shape)}.")
        return rows * weights.to(rows.dtype).repeat_interleave(2, -1)

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        row = []
        for a_m, b_m in zip(self.amplitudes, self.B, strict=True):
            alpha = 2 * math.pi * torch.dot(b_m, p)
            row += [a_m * torch.sin(alpha), a_m * torch.cos(alpha)]
        return torch.stack(row)
