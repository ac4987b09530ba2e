"""Coordinates: the raw coordinates, shifted and scaled, which is the baseline without an encoding.

    e(v) = scale (v - center)

Source: the mapping "none" of Tancik et al. 2020, arXiv 2006.10739, section 6, with scale 1 and center 0. A network on
raw coordinates learns low frequencies first and high ones slowly (spectral bias).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from typing_extensions import override

from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Coordinates(Scheme):
    """Raw coordinates, shifted and scaled, as the embedding.

        e(v) = scale (v - center)

    The embedding has ``axes`` channels. It is zero for tokens with ``placed=False``.

    Args:
        axes: Number P of axes of the positions. Default: 1.
        scale: Factor, positive, per unit of position. Default: 1.
        center: Coordinate that becomes 0, the same on every axis, in units of position. Default: 0.

    Raises:
        ValueError: If ``axes`` is less than 1, ``scale`` is not positive and finite, or ``center`` is not finite.

    Example:
        >>> from posenc import Coordinates, grid
        >>> scheme = Coordinates(axes=2, scale=0.5)
        >>> scheme.embed(scheme.prepare(grid(4, 4))).shape
        torch.Size([16, 2])

    References:
        Tancik et al. 2020, arXiv 2006.10739, section 6.
    """

    cite = """@inproceedings{tancik2020fourier,
  title={Fourier Features Let Networks Learn High Frequency Functions in Low Dimensional Domains},
  author={Tancik, Matthew and Srinivasan, Pratul and Mildenhall, Ben and Fridovich-Keil, Sara and Raghavan, Nithin
          and Singhal, Utkarsh and Ramamoorthi, Ravi and Barron, Jonathan and Ng, Ren},
  booktitle={NeurIPS}, year={2020}, note={arXiv:2006.10739}}"""
    examples = ({}, {"axes": 2}, {"axes": 2, "scale": 0.5}, {"axes": 3, "center": 2.0})

    def __init__(self, axes: int = 1, *, scale: float = 1.0, center: float = 0.0) -> None:
        super().__init__()
        if axes < 1:
            raise ValueError(f"there is at least one axis; got axes={axes}.")
        if not (math.isfinite(scale) and scale > 0 and math.isfinite(center)):
            raise ValueError(f"`scale` must be positive and finite, and `center` finite; got {scale:g} and {center:g}.")
        self.axes, self.scale, self.center = axes, float(scale), float(center)
        self.claims = Claims(
            translation="none",
            isometric=False,
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
        return self.axes

    @override
    def prepare(self, pos: Positions) -> Tensor:
        """Return the finished embedding, ``(.., N, P)``."""
        rows = (self.scale * (self._take(pos).precise() - self.center)).to(pos.table_dtype)
        return rows if pos.placed is None else rows * pos.placed[..., None]

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        return torch.stack([self.scale * (coordinate - self.center) for coordinate in p])
