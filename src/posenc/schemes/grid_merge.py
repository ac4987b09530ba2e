"""GridMerge: a grid cell's real and imaginary part are added to queries and keys.

    q' = q + Re(W_m) + Im(W_m),  the same for k;   W_m = (g_1 .. g_d),  g_k(m) = sum_i c_i exp(j omega_{i,k} . m)

Of the positional part alone the inner product is relative in the mean over places; with the cross terms to q and k
nothing is.

Source: Li et al. 2024, arXiv 2406.07049, version 2, eqs. 17 and 21. Conventions: ``c_i = 1 / sqrt(n)`` unless
given; the n = P + 1 waves of layer k are a simplex turned by a fixed random rotation of its own, drawn once from
``rotation_seed``; the lengths |omega_s| go round where there are more channels than scales.

``literal=True``: what the released code runs (github BoyangL1/gridpe-vision): the sum is added to the block's input and
not to q and k, an embedding of width ``dim`` for every block, with fixed complex c_i, ``|omega_k| = 200^(k/dim)``, and
directions drawn anew at every ``prepare``. ``"frozen"`` is the same with the first draw kept.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from posenc.kernels import simplex
from posenc.kernels.simplex import Coefficients, Phases, Released
from posenc.kernels.widths import of_width
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class GridMerge(Scheme):
    """``q' = q + Re(W) + Im(W)``, ``k' = k + Re(W) + Im(W)``.

    head_dim: a head's width. axes: P. dim: the width of the block's input, to which the literal form adds; head_dim
    otherwise. extent: what the longest wave spans, in units of position. frequencies: ``|omega_s|`` themselves,
    ``(S,)``, instead of the ladder of ratio ``e^(1/P)`` from wavelength 4 up to extent. rotation_seed: of the
    directions. coefficients: real and imaginary part of each c_i, as ``simplex.unitary_sums(axes)``. literal: the
    released code, drawing anew, or "frozen".
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
        {"head_dim": 12, "dim": 16, "literal": "frozen"},
        {"head_dim": 12, "rotation_seed": 1, "literal": True},
    )

    def __init__(
        self,
        head_dim: int,
        axes: int = 2,
        *,
        dim: int | None = None,
        extent: float = 14.0,
        frequencies: Tensor | None = None,
        rotation_seed: int = 0,
        coefficients: Coefficients | None = None,
        literal: bool | Literal["frozen"] = False,
    ) -> None:
        super().__init__()
        if head_dim < 1 or (dim is not None and dim < 1):
            raise ValueError(f"GridMerge needs head_dim >= 1 and dim >= 1; got head_dim={head_dim}, dim={dim}.")
        sizes = simplex.layers("GridMerge", axes, extent, frequencies, literal)
        self.head_dim, self.dim = head_dim, dim or head_dim
        self.coefficients = simplex.coefficients("GridMerge", axes, coefficients, literal)
        self.waves = simplex.wave_vectors(head_dim, axes, sizes, rotation_seed)[None]
        frozen = literal == "frozen"
        self.released = Released(self.dim, self.dim, 1, rotation_seed, frozen=frozen) if literal else None
        self.draws = simplex.DRAWS if literal is True else ()
        self.faults = simplex.NO_GRAPH if literal is True else {}
        self.claims = Claims(
            translation="none",
            isometric=False,
            learned=False,
            range=None,
            axes=axes,
            sites=frozenset({"embed"} if literal else {"q", "k"}),
            sharing="layer" if literal is True else "model",
            cacheable=literal is not True,
        )

    def reset_parameters(self) -> None:
        """Begin the literal draws anew."""
        if self.released is not None:
            self.released.reset_parameters()

    @property
    def head_width(self) -> int | None:
        return self.head_dim if self.released is None else None

    @property
    def out_dim(self) -> int:
        return super().out_dim if self.released is None else self.dim

    def prepare(self, pos: Positions) -> Tensor:
        """What is added: ``(.., 1, N, head_dim)``, or the literal form's rows ``(.., N, dim)``."""
        self._take(pos)
        if self.released is None:
            return _added(simplex.sums(pos, self.waves, self.coefficients), pos)
        return _added(simplex.sums(pos, self.released(), self.coefficients), pos).squeeze(-3)

    def transform(self, x: Tensor, where: Tensor, site: Literal["q", "k", "v", "o"]) -> Tensor:
        return (of_width(x, self.head_dim, "GridMerge") + where).to(x.dtype) if site in self.claims.sites else x

    def embed(self, where: Tensor) -> Tensor:
        return super().embed(where) if self.released is None else where

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        return x + torch.stack([_defined(waves, p, self.coefficients) for waves in self.waves[0]])

    def define_embed(self, p: Tensor) -> Tensor:
        assert self.released is not None
        return torch.stack([_defined(waves, p, self.coefficients) for waves in self.released.now()[0]])


def _added(g: Phases, pos: Positions) -> Tensor:
    rows = g.cos + g.sin
    return rows if pos.placed is None else rows * pos.placed[..., None, :, None]


def _defined(waves: Tensor, p: Tensor, c: Coefficients) -> Tensor:
    g = torch.stack([complex(*c[i]) * torch.exp(1j * (waves[i] * p).sum()) for i in range(len(waves))]).sum()
    return g.real + g.imag
