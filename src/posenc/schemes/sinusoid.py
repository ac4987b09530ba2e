"""Sinusoid: sinusoidal positional embedding, fixed sines and cosines at geometric frequencies, on any number of axes.

    PE[p, 2i] = sin(p omega_i),  PE[p, 2i+1] = cos(p omega_i),  omega_i = base^(-2i/d),  i = 0 .. d/2 - 1

Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.5. With several axes each axis gets ``d / P`` channels, with
the frequencies of that width, ``base^(-2i/(d/P))``. The encodings "1d-fixed" and "2d-fixed" of the studies are this
scheme on one and on two axes.

Conventions:
- Positions start at 0.
- The last axis comes first: the first half of an image token's channels encodes the column and the second half the row,
  as in the released code of arXiv 2406.08272 (github ljhearne/LSTNN_public).
- Implementations differ in the order of channels alone, so that a permutation of channels converts their tables:

      channels="interleaved"  [sin, cos, sin, cos, ..] of an axis, then the next axis; PVT with leading="first"
      channels="halves"       [sines | cosines] of an axis, then the next axis; MAE (github facebookresearch/mae)
      channels="sines first"  the sines of all axes, then the cosines; timm's sincos2d with leading="first"
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor
from typing_extensions import override

from posenc.frequencies import from_span, geometric
from posenc.kernels.wave_vectors import GivenFrequencies, frequency_numbers
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme

Channels = Literal["interleaved", "halves", "sines first"]
BASE = 10000.0
"""Base of the geometric frequencies."""


class Sinusoid(Scheme):
    """Sinusoidal embedding of Vaswani et al.; rows have length ``sqrt(d/2)``.

        PE(p) = [sin, cos](p_P omega), .., [sin, cos](p_1 omega)   concatenated

    Args:
        dim: Width d of a row, a multiple of ``2 * axes``.
        axes: Number P of position axes.
        base: Base of the geometric frequencies, above 0; they are in radians per unit of position.
        frequencies: Frequencies of each axis in place of the geometric ones, ``dim / (2 axes)`` numbers or a tensor, in
            radians per unit of position, as of ``posenc.frequencies.periods`` or ``from_span``. Default: None.
        channels: Order of the channels: "interleaved", "halves" or "sines first" (see the module).
        leading: Axis that comes first in a row: the "last" or the "first".

    Raises:
        ValueError: If ``dim`` is not a multiple of ``2 * axes``, ``base`` is not positive, ``frequencies`` do not fit
            or come with a ``base``, or a choice is unknown.

    Example:
        >>> from posenc import Sinusoid, grid
        >>> scheme = Sinusoid(64, axes=2)
        >>> scheme.embed(scheme.prepare(grid(14, 14))).shape
        torch.Size([196, 64])

    References:
        Vaswani, Shazeer, Parmar, Uszkoreit, Jones, Gomez, Kaiser and Polosukhin, 2017, "Attention Is All You Need",
        arXiv 1706.03762, section 3.5.
    """

    cite = """@inproceedings{vaswani2017attention,
  title={Attention Is All You Need},
  author={Vaswani, Ashish and Shazeer, Noam and Parmar, Niki and Uszkoreit, Jakob and Jones, Llion and Gomez, Aidan N
          and Kaiser, Lukasz and Polosukhin, Illia},
  booktitle={NeurIPS}, year={2017}, note={arXiv:1706.03762}}"""
    examples = (
        {"dim": 12},
        {"dim": 12, "base": 100.0},
        {"dim": 12, "frequencies": from_span(6, shortest=3.0, longest=50.0)},
        {"dim": 12, "axes": 2},
        {"dim": 12, "axes": 3},
        {"dim": 12, "axes": 2, "channels": "halves"},
        {"dim": 12, "axes": 2, "channels": "sines first", "leading": "first"},
    )
    conventions = (
        "channels",
        "leading",
    )

    def __init__(
        self,
        dim: int,
        axes: int = 1,
        *,
        base: float = BASE,
        frequencies: GivenFrequencies | None = None,
        channels: Channels = "interleaved",
        leading: Literal["last", "first"] = "last",
    ) -> None:
        super().__init__()
        if axes < 1:
            raise ValueError(f"Sinusoid needs at least one axis; got axes={axes}. Use axes=1 for a sequence.")
        if dim < 1 or dim % (2 * axes):
            raise ValueError(
                f"Sinusoid gives each of {axes} axes the same number of sine and cosine pairs, so `dim` must be a "
                f"multiple of {2 * axes}; got {dim}. Use {max(dim // (2 * axes), 1) * 2 * axes}."
            )
        geometric(1, base=base)  # raises for a base that is not positive
        if frequencies is not None and base != BASE:
            raise ValueError(f"`frequencies` have a base already; got base={base:g} besides. Pass one of the two.")
        count = dim // (2 * axes)
        self.frequencies = None if frequencies is None else frequency_numbers(frequencies, count, f"Sinusoid({dim})")
        if channels not in get_args(Channels):
            raise ValueError(
                f"the channels of Sinusoid stand 'interleaved', in 'halves' or 'sines first'; got {channels!r}."
            )
        if leading not in ("last", "first"):
            raise ValueError(f"the 'last' axis leads a row of Sinusoid, or the 'first'; got {leading!r}.")
        self.dim, self.base = dim, base
        self.channels: Channels = channels
        self.leading: Literal["last", "first"] = leading
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
    @override
    def out_dim(self) -> int:
        return self.dim

    @override
    def prepare(self, pos: Positions) -> Tensor:
        """Compute the rows ``(.., N, dim)``, which depend on the positions alone."""
        self._take(pos)
        coords = pos.precise()
        if self.frequencies is None:
            omega = geometric(self.dim // (2 * pos.axes), base=self.base, device=coords.device)
        else:
            omega = torch.tensor(self.frequencies, dtype=coords.dtype, device=coords.device)
        angle = (coords.flip(-1) if self.leading == "last" else coords)[..., None] * omega  # (.., N, P, d / 2P)
        apart = {"interleaved": -1, "halves": -2, "sines first": -3}[self.channels]
        rows = torch.stack([angle.sin(), angle.cos()], apart).flatten(-3).to(pos.table_dtype)
        return rows if pos.placed is None else rows * pos.placed[..., None]

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        axes = len(p)
        d, row = self.dim // axes, {}
        for a in range(axes):
            x = p[a] if self.leading == "first" else p[axes - 1 - a]
            for i in range(d // 2):
                omega_i = self.base ** (-2 * i / d) if self.frequencies is None else self.frequencies[i]
                sine, cosine = {
                    "interleaved": (a * d + 2 * i, a * d + 2 * i + 1),
                    "halves": (a * d + i, a * d + d // 2 + i),
                    "sines first": (a * d // 2 + i, (axes + a) * d // 2 + i),
                }[self.channels]
                row[sine], row[cosine] = torch.sin(x * omega_i), torch.cos(x * omega_i)
        return torch.stack([row[channel] for channel in range(self.dim)])
