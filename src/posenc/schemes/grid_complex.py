"""GridComplex: queries and keys are multiplied channel by channel with a complex sum of waves.

    <q', k'> = q^T Re(W_m^H W_n) k = sum_k q_k k_k Re(conj(g_k(m)) g_k(n)),   g_k(m) = sum_i c_i exp(j omega_{i,k} . m)

Between different waves of one layer stay cross terms ``exp(j (omega_i . n - omega_l . m))``, so with n > 1 waves it is
not translation invariant, although the paper calls it so. ``independent_waves=True`` drops them and is exact:

    <q', k'> = sum_k q_k k_k sum_i |c_i|^2 cos(omega_{i,k} . (n - m))

Source: Li et al. 2024, arXiv 2406.07049, version 2, eqs. 17 and 22, with W read as a diagonal. Conventions:
``c_i = 1 / sqrt(n)`` unless given; the n = P + 1 waves of layer k are a simplex turned by a fixed random rotation of
its own, drawn once from ``rotation_seed``; the lengths |omega_s| go round where there are more channels than scales. q
and k widen to ``[x Re g, x Im g]``; the softmax keeps the scale of the head.

``literal=True``: what the released code runs (github BoyangL1/gridpe-vision): no conjugate, ``Re q Re k - Im q Im k``,
so that ``m + n`` counts and not ``n - m``; fixed complex c_i, ``|omega_k| = 200^(k/d)``, and directions drawn anew at
every ``prepare``, apart for q and k. ``"frozen"`` is the same with the first draw kept.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from posenc.kernels import rotary, simplex
from posenc.kernels.rotary import Turn
from posenc.kernels.simplex import Coefficients, Phases, Released, Sides
from posenc.kernels.widths import of_width
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class GridComplex(Scheme):
    """``q -> [q Re g(m), q Im g(m)]``, ``k -> [k Re g(n), k Im g(n)]``.

    head_dim: a head's width. axes: P. extent: what the longest wave spans, in units of position. frequencies:
    ``|omega_s|`` themselves, ``(S,)``, instead of the ladder of ratio ``e^(1/P)`` from wavelength 4 up to extent.
    rotation_seed: of the directions. coefficients: real and imaginary part of each c_i, as
    ``simplex.unitary_sums(axes)``. independent_waves: every wave a feature of its own, exactly relative, 2 n
    head_dim wide. literal: the released code, drawing anew, or "frozen".
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
        {"head_dim": 12, "coefficients": simplex.RELEASED},
        {"head_dim": 12, "independent_waves": True},
        {"head_dim": 12, "independent_waves": True, "coefficients": simplex.RELEASED},
        {"head_dim": 12, "literal": "frozen"},
        {"head_dim": 12, "rotation_seed": 1, "literal": True},
    )
    conventions = ("independent_waves",)

    def __init__(
        self,
        head_dim: int,
        axes: int = 2,
        *,
        extent: float = 14.0,
        frequencies: Tensor | None = None,
        rotation_seed: int = 0,
        coefficients: Coefficients | None = None,
        independent_waves: bool = False,
        literal: bool | Literal["frozen"] = False,
    ) -> None:
        super().__init__()
        if head_dim < 1 or (independent_waves and literal):
            raise ValueError(
                "GridComplex needs head_dim >= 1, and its literal form sums its waves: independent_waves=False; got "
                f"head_dim={head_dim}, independent_waves={independent_waves}, literal={literal!r}."
            )
        sizes = simplex.layers("GridComplex", axes, extent, frequencies, literal)
        self.head_dim, self.independent_waves = head_dim, independent_waves
        self.coefficients = simplex.coefficients("GridComplex", axes, coefficients, literal)
        self.waves = simplex.wave_vectors(head_dim, axes, sizes, rotation_seed)[None]
        self.released = Released(head_dim, head_dim, 2, rotation_seed, frozen=literal == "frozen") if literal else None
        one_wave = independent_waves or (axes == 1 and not literal)
        self.draws = simplex.DRAWS if literal is True else ()
        self.faults = simplex.NO_GRAPH if literal is True else {}
        self.claims = Claims(
            translation="exact" if one_wave else "none",
            isometric=one_wave and math.isclose(sum(a * a + b * b for a, b in self.coefficients), 1),
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

    def prepare(self, pos: Positions) -> Sides:
        self._take(pos)
        if self.released is not None:
            both = simplex.sides(simplex.sums(pos, self.released(), self.coefficients))
            return Sides(Phases(both.q.cos, -both.q.sin), both.k)
        made = simplex.phases if self.independent_waves else simplex.sums
        g = made(pos, self.waves, self.coefficients)
        return Sides(g, g)

    def transform(self, x: Tensor, where: Sides, site: Literal["q", "k", "v", "o"]) -> Tensor:
        if site not in ("q", "k"):
            return x
        g = where.q if site == "q" else where.k
        wide = of_width(x, self.head_dim, "GridComplex").repeat_interleave(g.cos.shape[-1] // self.head_dim, -1)
        return torch.cat([wide * g.cos, wide * g.sin], -1).to(x.dtype)

    def rerotate(self, x: Tensor, where_from: Sides, where_to: Sides, site: Literal["k", "v"] = "k") -> Tensor:
        if site != "k" or self.claims.translation != "exact":
            return super().rerotate(x, where_from, where_to, site)
        to, start = (Turn(torch.stack(where.k, -2), "half") for where in (where_to, where_from))
        return rotary.turn(x, to.after(start))

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        layers = self.waves[0] if self.released is None else self.released.now()[0 if site == "q" else 1]
        c, rows = [complex(*parts) for parts in self.coefficients], []
        for k, waves in enumerate(layers):
            each = [c[i] * torch.exp(1j * (waves[i] * p).sum()) for i in range(len(waves))]
            rows += [x[k] * g for g in (each if self.independent_waves else [torch.stack(each).sum()])]
        y = torch.stack(rows)
        return torch.cat([y.real, -y.imag if self.released is not None and site == "q" else y.imag])
