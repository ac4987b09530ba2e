"""GridRotate: queries and keys are turned pair by pair, each by one wave in a direction of its own.

    R_m = diag(A_1 .. A_{d/2}),   A_k = rotation by omega_{k,1} . m          (eqs. 18, 19)
    <q', k'> = q^T R_m^T R_n k                                               (eq. 20)

One wave a scale makes it RoPE with oblique frequencies, and on one axis RoPE itself.

Source: Li et al. 2024, arXiv 2406.07049, version 2. Conventions: pair k is channels (2k, 2k+1); its direction is the
first of a simplex turned by a fixed random rotation of its own, drawn once from ``rotation_seed``; the lengths
|omega_s| go round where there are more pairs than scales.

``literal=True``: what the released code runs (github BoyangL1/gridpe-vision): three waves summed with fixed complex
coefficients, ``g_k = sum_i c_i exp(j omega_{i,k} . m)`` with ``|omega_k| = 200^(k/d)``; (Re g, Im g) stand for
(cos, sin) without being normalised, |g| from .07 to 2.7; pairs are (k, k + d/2); and the directions are drawn anew at
every ``prepare``, apart for q and for k, so that nothing relative is left. ``"frozen"`` is the same with the first draw
kept. The contract holds one draw while it compares two calls.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from posenc.kernels import rotary, simplex
from posenc.kernels.rotary import Turn
from posenc.kernels.simplex import Released
from posenc.kernels.widths import of_width
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Turns(NamedTuple):
    """Of queries and of keys: one thing twice, unless the literal form drew them apart."""

    q: Turn
    k: Turn


class GridRotate(Scheme):
    """``(x_2k, x_2k+1) -> A_k (x_2k, x_2k+1)``, ``A_k`` the rotation by ``omega_{k,1} . m``.

    head_dim: a head's width, even. axes: P. extent: what the longest wave spans, in units of position. frequencies:
    ``|omega_s|`` themselves, ``(S,)``, instead of the ladder of ratio ``e^(1/P)`` from wavelength 4 up to extent.
    rotation_seed: of the directions. literal: the released code, drawing anew, or "frozen".
    """

    cite = """@article{li2024gridpe,
  title={GridPE: Unifying Positional Encoding in Transformers with a Grid Cell-Inspired Framework},
  author={Li, Boyang and Wu, Yulin and Huang, Nuoxian and Zhang, Wenjia},
  journal={arXiv:2406.07049}, year={2024}}"""
    examples = (
        {"head_dim": 12},
        {"head_dim": 12, "axes": 1},
        {"head_dim": 12, "axes": 3, "extent": 30.0},
        {"head_dim": 12, "frequencies": torch.tensor([2.0, 1.0, 0.5])},
        {"head_dim": 12, "rotation_seed": 1},
        {"head_dim": 12, "literal": "frozen"},
        {"head_dim": 12, "rotation_seed": 1, "literal": True},
    )

    def __init__(
        self,
        head_dim: int,
        axes: int = 2,
        *,
        extent: float = 14.0,
        frequencies: Tensor | None = None,
        rotation_seed: int = 0,
        literal: bool | Literal["frozen"] = False,
    ) -> None:
        super().__init__()
        if head_dim < 2 or head_dim % 2:
            raise ValueError(f"GridRotate turns pairs of channels, so `head_dim` must be even; got {head_dim}.")
        sizes = simplex.layers("GridRotate", axes, extent, frequencies, literal)
        pairs = head_dim // 2
        self.head_dim, self.literal = head_dim, bool(literal)
        self.waves = simplex.wave_vectors(pairs, axes, sizes, rotation_seed)[None, :, 0]
        self.released = Released(pairs, head_dim, 2, rotation_seed, frozen=literal == "frozen") if literal else None
        self.draws = simplex.DRAWS if literal is True else ()
        self.faults = simplex.NO_GRAPH if literal is True else {}
        self.claims = Claims(
            translation="none" if literal else "exact",
            isometric=not literal,
            learned=False,
            range=None,
            axes=axes,
            sites=frozenset({"q", "k"}),
            sharing="layer" if literal is True else "model",
            cacheable=literal is not True,
        )

    def reset_parameters(self) -> None:
        """Begin the literal draws anew."""
        if self.released is not None:
            self.released.reset_parameters()

    @property
    def head_width(self) -> int:
        return self.head_dim

    def prepare(self, pos: Positions) -> Turns:
        self._take(pos)
        if self.released is None:
            return Turns(*[simplex.turns(pos, self.waves)] * 2)
        both = simplex.sides(simplex.sums(pos, self.released(), simplex.RELEASED))
        return Turns(*(Turn(torch.stack(g, -2), "half") for g in both))

    def transform(self, x: Tensor, where: Turns, site: Literal["q", "k", "v", "o"]) -> Tensor:
        if site not in ("q", "k"):
            return x
        return rotary.turn(of_width(x, self.head_dim, "GridRotate"), where.q if site == "q" else where.k)

    def rerotate(self, x: Tensor, where_from: Turns, where_to: Turns, site: Literal["k", "v"] = "k") -> Tensor:
        if self.literal or site != "k":
            return super().rerotate(x, where_from, where_to, site)
        return rotary.turn(x, where_to.k.after(where_from.k))

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        y, pairs = list(x), self.head_dim // 2
        for k in range(pairs):
            if self.released is None:
                a, b = 2 * k, 2 * k + 1
                angle = torch.stack([w * z for w, z in zip(self.waves[0, k], p, strict=True)]).sum()
                g = torch.exp(1j * angle)
            else:
                a, b = k, k + pairs
                waves = self.released.now()[0 if site == "q" else 1, k]
                angle = [waves[i, 0] * p[0] + waves[i, 1] * p[1] for i in range(3)]
                g = torch.stack([complex(*simplex.RELEASED[i]) * torch.exp(1j * angle[i]) for i in range(3)]).sum()
            y[a], y[b] = x[a] * g.real - x[b] * g.imag, x[b] * g.real + x[a] * g.imag
        return torch.stack(y)
