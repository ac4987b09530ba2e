"""The coordinates themselves, moved and scaled: what a network sees that gets no encoding.

    e(v) = scale (v - centre)

Source: the mapping "none" of Tancik et al. 2020, arXiv 2006.10739, section 6, with scale 1 and centre 0. A network
behind it learns low frequencies first and the high ones hardly ever; other encodings are compared with it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Coordinates(Scheme):
    """``e(v) = scale (v - centre)``, P numbers; a token without a place has zeros.

    axes: P. scale: > 0. centre: the point that becomes 0, the same number on every axis.
    """

    cite = """@inproceedings{tancik2020fourier,
  title={Fourier Features Let Networks Learn High Frequency Functions in Low Dimensional Domains},
  author={Tancik, Matthew and Srinivasan, Pratul and Mildenhall, Ben and Fridovich-Keil, Sara and Raghavan, Nithin
          and Singhal, Utkarsh and Ramamoorthi, Ravi and Barron, Jonathan and Ng, Ren},
  booktitle={NeurIPS}, year={2020}, note={arXiv:2006.10739}}"""
    examples = ({}, {"axes": 2}, {"axes": 2, "scale": 0.5}, {"axes": 3, "centre": 2.0})

    def __init__(self, axes: int = 1, *, scale: float = 1.0, centre: float = 0.0) -> None:
        super().__init__()
        if axes < 1:
            raise ValueError(f"there is at least one axis; got axes={axes}.")
        if not (math.isfinite(scale) and scale > 0 and math.isfinite(centre)):
            raise ValueError(f"scale is a positive number and centre a finite one; got {scale:g} and {centre:g}.")
        self.axes, self.scale, self.centre = axes, float(scale), float(centre)
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
    def out_dim(self) -> int:
        return self.axes

    def prepare(self, pos: Positions) -> Tensor:
        """The finished rows ``(.., N, P)``."""
        rows = (self.scale * (self._take(pos).precise() - self.centre)).to(pos.table_dtype)
        return rows if pos.placed is None else rows * pos.placed[..., None]

    def embed(self, where: Tensor) -> Tensor:
        return where

    def define_embed(self, p: Tensor) -> Tensor:
        return torch.stack([self.scale * (coordinate - self.centre) for coordinate in p])
