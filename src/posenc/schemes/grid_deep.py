"""GridDeep: queries and keys are multiplied channel by channel with a trained map of a grid cell's waves.

    <q', k'> = (q o f(W_m)) . (k o f(W_n)),   W_m = (g_1 .. g_d),  g_k(m) = sum_i c_i exp(j omega_{i,k} . m)
    f(W) = C [A Re W + a ; B Im W + b] + c,   A, B of d x d and C of d x 2d, one f for q and k

No non-linearity stands in f, in the released code neither. Nothing of it is relative; but on one axis, where |g| = 1,
the first draw of f prefers no phase, and attention is relative in the mean over such draws.

Source: Li et al. 2024, arXiv 2406.07049, version 2, eqs. 17 and 23; the shape of f is the released code's (github
BoyangL1/gridpe-vision). Conventions: ``c_i = 1 / sqrt(n)`` unless given; the n = P + 1 waves of layer k are a
simplex turned by a fixed random rotation of its own, drawn once from ``rotation_seed``; the lengths |omega_s| go round
where there are more channels than scales; A, B, C start as torch's linear layers do.

``literal=True``: what that code runs: f is drawn anew at every ``prepare``, apart for q and k, and never trained; it
acts along the tokens, so that A, B are N x N and every token's factor depends on all of them; fixed complex c_i,
``|omega_k| = 200^(k/d)``, directions drawn anew too. ``"frozen"`` keeps the first draw and lets f act on the channels:
what mixes tokens is no map of one token.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from posenc.kernels import complex_map, simplex
from posenc.kernels.simplex import Coefficients, Released
from posenc.kernels.widths import of_width
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Factors(NamedTuple):
    """``f(W)`` of queries and of keys, each ``(.., 1, N, head_dim)``."""

    q: Tensor
    k: Tensor


class GridDeep(Scheme):
    """``q -> q o f(W_m)``, ``k -> k o f(W_n)``, f affine, trained and shared by q and k.

    head_dim: a head's width. axes: P. extent: what the longest wave spans, in units of position. frequencies:
    ``|omega_s|`` themselves, ``(S,)``, instead of the ladder of ratio ``e^(1/P)`` from wavelength 4 up to extent.
    rotation_seed: of the directions. coefficients: real and imaginary part of each c_i, as
    ``simplex.unitary_sums(axes)``. literal: the released code, drawing anew, or "frozen". generator: of the first f.
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
        {"head_dim": 12, "literal": "frozen"},
        {"head_dim": 12, "rotation_seed": 1, "literal": True},
    )
    wide = frozenset(complex_map.NAMES)  # each logit is a product of two values of f

    def __init__(
        self,
        head_dim: int,
        axes: int = 2,
        *,
        extent: float = 14.0,
        frequencies: Tensor | None = None,
        rotation_seed: int = 0,
        coefficients: Coefficients | None = None,
        literal: bool | Literal["frozen"] = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if head_dim < 1:
            raise ValueError(f"GridDeep needs head_dim >= 1; got {head_dim}.")
        sizes = simplex.layers("GridDeep", axes, extent, frequencies, literal)
        self.head_dim = d = head_dim
        self.coefficients = simplex.coefficients("GridDeep", axes, coefficients, literal)
        self.waves = simplex.wave_vectors(d, axes, sizes, rotation_seed)[None]
        self.released = Released(d, d, 2, rotation_seed, frozen=literal == "frozen") if literal else None
        self.untrained: tuple[dict[str, Tensor], ...] = ()
        if literal == "frozen" and self.released is not None:
            self.untrained = tuple(complex_map.drawn(d, self.released.generator(1 + side)) for side in (0, 1))
        for name, tensor in complex_map.empty(d).items():
            self.register_parameter(name, None if literal else nn.Parameter(tensor))
        self.reset_parameters(generator)
        self.draws = simplex.DRAWS if literal is True else ()
        self.faults = simplex.NO_GRAPH | complex_map.ALONG_TOKENS if literal is True else {}
        self.claims = Claims(
            translation="expected" if axes == 1 and not literal else "none",
            isometric=False,
            learned=not literal,
            range=None,
            axes=axes,
            sites=frozenset({"q", "k"}),
            sharing="model" if literal == "frozen" else "layer",
            cacheable=literal is not True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw f anew, or begin the literal draws anew."""
        if self.released is None:
            complex_map.draw(self.f, generator)
        else:
            self.released.reset_parameters()

    @property
    def f(self) -> dict[str, Tensor]:
        """The trained map's A, a, B, b, C, c."""
        return {name: self.get_parameter(name) for name in complex_map.NAMES}

    @property
    def head_width(self) -> int:
        return self.head_dim

    def prepare(self, pos: Positions) -> Factors:
        self._take(pos)
        return Factors(*(_neutral(factor, pos) for factor in self._factors(pos)))

    def _factors(self, pos: Positions) -> list[Tensor]:
        if self.released is None:
            return [complex_map.apply(self.f, simplex.sums(pos, self.waves, self.coefficients))] * 2
        generator = None if self.untrained else self.released.next_generator()
        both = simplex.sides(simplex.sums(pos, self.released(generator), self.coefficients))
        if generator is None:
            return [complex_map.apply(f, w) for f, w in zip(self.untrained, both, strict=True)]
        return [complex_map.apply(complex_map.drawn(pos.count, generator), w, axis=-2) for w in both]

    def transform(self, x: Tensor, where: Factors, site: Literal["q", "k", "v", "o"]) -> Tensor:
        return (of_width(x, self.head_dim, "GridDeep") * getattr(where, site)).to(x.dtype) if site in ("q", "k") else x

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        side, released, d = "qk".index(site), self.released, self.head_dim
        f, layers = (self.f, self.waves[0]) if released is None else (self.untrained[side], released()[side])
        c = [complex(*parts) for parts in self.coefficients]
        w = [torch.stack([c[i] * torch.exp(1j * (u @ p)) for i, u in enumerate(waves)]).sum() for waves in layers]
        f = {name: tensor.to(x) for name, tensor in f.items()}
        hidden = [sum((f["A"][j, i] * w[i].real for i in range(d)), f["a"][j]) for j in range(d)]
        hidden += [sum((f["B"][j, i] * w[i].imag for i in range(d)), f["b"][j]) for j in range(d)]
        factor = [sum((f["C"][k, j] * h for j, h in enumerate(hidden)), f["c"][k]) for k in range(d)]
        return torch.stack([x[k] * factor[k] for k in range(d)])


def _neutral(factor: Tensor, pos: Positions) -> Tensor:
    return factor if pos.placed is None else torch.where(pos.placed[..., None, :, None], factor, 1.0)
