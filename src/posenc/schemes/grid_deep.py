"""GridDeep: the deep variant of GridPE; each channel of queries and keys is multiplied by a trained map of waves.

    <q', k'> = (q o f(W_m)) . (k o f(W_n)),   W_m = (g_1 .. g_d),  g_k(m) = sum_i c_i exp(j omega_{i,k} . m)
    f(W) = C [A Re W + a ; B Im W + b] + c,   A, B of d x d and C of d x 2d, one f for q and k

f has no non-linearity, as in the released code. The logits are not translation invariant. On one axis, where |g| = 1,
they are translation invariant in expectation over the initial weights of f.

Source: Li et al. 2024, arXiv 2406.07049, version 2, eqs. 17 and 23. The form of f is that of the released code (github
BoyangL1/gridpe-vision).

Conventions:
- ``c_i = 1 / sqrt(n_waves)`` by default. The number of waves per channel is ``n_waves = P + 1``, or 1 for P = 1.
- The directions of the waves of channel k form a regular simplex. Each channel has its own random rotation of it,
  drawn once from ``rotation_seed``.
- The lengths ``|omega_s|`` are repeated where there are more channels than lengths.
- A, B and C start as torch's linear layers do.
- ``literal=True``: as released. f is drawn anew at every ``prepare``, separately for q and k, and is never trained. It
  acts along the tokens: A and B are N x N, and the factor of a token depends on all tokens. The c_i are fixed complex
  numbers, ``|omega_k| = 200^(k/d)``, and directions are drawn anew, too.
- ``literal="frozen"`` keeps the first draw and applies f along the channels, because a map along the tokens is not a
  map of one token.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.kernels import complex_map, simplex
from posenc.kernels.shape_checks import require_count, require_width
from posenc.kernels.simplex import Coefficients, GivenFrequencies, Released
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Factors(NamedTuple):
    """The factors ``f(W)`` of queries and of keys, each ``(.., 1, N, head_dim)``."""

    q: Tensor
    k: Tensor


class GridDeep(Scheme):
    """GridPE by multiplication with a trained map of waves (GridPE-deep), for real positions.

        q -> q o f(W_m),   k -> k o f(W_n),   f(W) = C [A Re W + a ; B Im W + b] + c

    Args:
        head_dim: Width d of one head.
        axes: Number P of axes of the positions. Default: 2.
        extent: Distance that the longest wave spans, in units of position. Default: 14.
        frequencies: Lengths ``|omega_s|`` of the wave vectors, S numbers or a tensor ``(S,)``, in radians per unit of
            position; ``economy(shortest=2.0, ratio=1.5)`` of ``posenc.frequencies`` has other scales. Default:
            ``2 pi / (4 r^s)`` with ``r = e^(1/P)``, up to the first wavelength of at least ``extent``.
        rotation_seed: Seed of the random directions. Default: 0.
        coefficients: Complex coefficients ``c_i`` as pairs (real part, imaginary part), ``(n_waves, 2)``, for example
            ``posenc.kernels.simplex.unitary_sums(axes)``. Default: ``1 / sqrt(n_waves)``.
        literal: If True, as released, with a new f and new directions at every ``prepare``; if "frozen", the first draw
            is kept. Both need ``axes=2``. Default: False.
        generator: Random generator of the initial f. Default: torch's global generator.

    Raises:
        ValueError: If ``head_dim`` or ``axes`` is less than 1, if ``extent``, ``frequencies`` or ``coefficients`` do
            not suit, or if ``literal`` is given with ``coefficients`` or ``axes`` other than 2.

    Example:
        >>> import torch
        >>> from posenc import GridDeep, attention, grid
        >>> q = k = v = torch.randn(1, 2, 12, 16)  # (batch, heads, tokens, head_dim)
        >>> attention(q, k, v, scheme=GridDeep(16, axes=2), q_pos=grid(3, 4)).shape
        torch.Size([1, 2, 12, 16])

    References:
        Li, Wu, Huang and Zhang 2024, arXiv 2406.07049, version 2, eqs. 17 and 23.
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
        frequencies: GivenFrequencies | None = None,
        rotation_seed: int = 0,
        coefficients: Coefficients | None = None,
        literal: bool | Literal["frozen"] = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if head_dim < 1:
            raise ValueError(f"GridDeep needs head_dim >= 1; got {head_dim}.")
        sizes = simplex.wave_frequencies("GridDeep", axes, extent, frequencies, literal)
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
        """Redraw f, or restart the random draws of ``literal``; needed after construction on the meta device.

        Args:
            generator: Random generator of f. Default: torch's global generator.
        """
        if self.released is None:
            complex_map.draw(self.f, generator)
        else:
            self.released.reset_parameters()

    @property
    def f(self) -> dict[str, Tensor]:
        """The weights A, a, B, b, C, c of the trained map, by name."""
        return {name: self.get_parameter(name) for name in complex_map.NAMES}

    @override
    def prepare(self, pos: Positions) -> Factors:
        self._take(pos)
        return Factors(*(_neutral(factor, pos) for factor in self._factors(pos)))

    def _factors(self, pos: Positions) -> list[Tensor]:
        """Return ``f(W)`` for queries and for keys."""
        if self.released is None:
            return [complex_map.apply(self.f, simplex.sums(pos, self.waves, self.coefficients))] * 2
        generator = None if self.untrained else self.released.next_generator()
        both = simplex.sides(simplex.sums(pos, self.released(generator), self.coefficients))
        if generator is None:
            return [complex_map.apply(f, w) for f, w in zip(self.untrained, both, strict=True)]
        return [complex_map.apply(complex_map.drawn(pos.count, generator), w, axis=-2) for w in both]

    @override
    def transform(self, x: Tensor, where: Factors, site: Literal["q", "k", "v", "o"]) -> Tensor:
        if site not in ("q", "k"):
            return x
        factor = where.q if site == "q" else where.k
        x = require_count(require_width(x, self.head_dim, "GridDeep"), factor.shape[-2], "GridDeep")
        return (x * factor).to(x.dtype)

    @override
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
    """Set the factor of tokens with ``placed=False`` to 1."""
    return factor if pos.placed is None else torch.where(pos.placed[..., None, :, None], factor, 1.0)
