"""Sinusoidal embedding on any number of axes; "1d-fixed" and "2d-fixed" are it, on two views of the positions.

    PE[p, 2i] = sin(p omega_i),  PE[p, 2i+1] = cos(p omega_i),  omega_i = base^(-2i/d),  i = 0 .. d/2 - 1

Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.5. Several axes: each gets ``d / P`` channels of its own, and
the frequencies are those of that width, ``base^(-2i/(d/P))``.

Conventions: positions from 0; sine and cosine interleaved; the last axis first, so that on a picture the first half
stands for the column and the second for the row, as in the released code of arXiv 2406.08272
(github ljhearne/LSTNN_public).
"""

from __future__ import annotations

import torch
from torch import Tensor

from posenc import frequencies
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Sinusoid(Scheme):
    """``PE(p) = [sin, cos](p_P omega) + .. + [sin, cos](p_1 omega)``, concatenated; rows have length ``sqrt(d/2)``.

    dim: width d, divisible by ``2 * axes``. axes: P. base: of the geometric frequencies, > 0.
    """

    cite = """@inproceedings{vaswani2017attention,
  title={Attention Is All You Need},
  author={Vaswani, Ashish and Shazeer, Noam and Parmar, Niki and Uszkoreit, Jakob and Jones, Llion and Gomez, Aidan N
          and Kaiser, Lukasz and Polosukhin, Illia},
  booktitle={NeurIPS}, year={2017}, note={arXiv:1706.03762}}"""
    examples = ({"dim": 12}, {"dim": 12, "base": 100.0}, {"dim": 12, "axes": 2}, {"dim": 12, "axes": 3})

    def __init__(self, dim: int, axes: int = 1, *, base: float = 10000.0) -> None:
        super().__init__()
        if axes < 1:
            raise ValueError(f"Sinusoid needs at least one axis; got axes={axes}. Use axes=1 for a sequence.")
        if dim < 1 or dim % (2 * axes):
            raise ValueError(
                f"Sinusoid gives each of {axes} axes the same number of sine and cosine pairs, so `dim` must be a "
                f"multiple of {2 * axes}; got {dim}. Use {max(dim // (2 * axes), 1) * 2 * axes}."
            )
        frequencies.geometric(1, base=base)  # refuses a base that is not positive
        self.dim, self.base = dim, base
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=False,
            range=None,
            axes=axes,
            sites=frozenset({"embed"}),
            sharing="model",
            cacheable=True,
        )

    @property
    def out_dim(self) -> int:
        return self.dim

    def prepare(self, pos: Positions) -> Tensor:
        """The finished rows ``(.., N, dim)``: they depend on nothing else."""
        self._take(pos)
        omega = frequencies.geometric(self.dim // (2 * pos.axes), base=self.base, device=pos.coords.device)
        angle = pos.precise().flip(-1)[..., None] * omega
        rows = torch.stack([angle.sin(), angle.cos()], -1).flatten(-3).to(pos.table_dtype)
        return rows if pos.placed is None else rows * pos.placed[..., None]

    def embed(self, where: Tensor) -> Tensor:
        return where

    def define_embed(self, p: Tensor) -> Tensor:
        axes = len(p)
        d = self.dim // axes
        row = []
        for axis in reversed(range(axes)):
            for i in range(d // 2):
                omega_i = self.base ** (-2 * i / d)
                row += [torch.sin(p[axis] * omega_i), torch.cos(p[axis] * omega_i)]
        return torch.stack(row)
