"""GridComplex: the complex variant of GridPE; each channel of queries and keys is multiplied by a complex sum of waves.

    <q', k'> = q^T Re(W_m^H W_n) k = sum_k q_k k_k Re(conj(g_k(m)) g_k(n)),   g_k(m) = sum_i c_i exp(j omega_{i,k} . m)

With more than one wave per channel, the product has cross terms ``exp(j (omega_i . n - omega_l . m))``. It is then not
translation invariant, although the paper calls it so. ``independent_waves=True`` drops the cross terms and is exactly
translation invariant:

    <q', k'> = sum_k q_k k_k sum_i |c_i|^2 cos(omega_{i,k} . (n - m))

Source: Li et al. 2024, arXiv 2406.07049, version 2, eqs. 17 and 22, with W read as a diagonal matrix.

Conventions:
- ``c_i = 1 / sqrt(n_waves)`` by default. The number of waves per channel is ``n_waves = P + 1``, or 1 for P = 1.
- The directions of the waves of channel k form a regular simplex. Each channel has its own random rotation of it,
  drawn once from ``rotation_seed``.
- The lengths ``|omega_s|`` are repeated where there are more channels than lengths.
- q and k widen to ``[x Re g, x Im g]``. The softmax keeps the scale of the original head.
- ``literal=True``: as released (github BoyangL1/gridpe-vision). The product has no conjugate: ``Re q Re k - Im q Im k``
  depends on ``m + n`` and not on ``n - m``. The c_i are fixed complex numbers, and ``|omega_k| = 200^(k/d)``.
  Directions are drawn anew at every ``prepare``, separately for q and k. ``"frozen"`` keeps the first draw.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from posenc.kernels import rotary, simplex
from posenc.kernels.rotary import Rotation
from posenc.kernels.shape_checks import require_count, require_width
from posenc.kernels.simplex import Coefficients, GivenFrequencies, Phases, Released, Sides
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class GridComplex(Scheme):
    """GridPE by multiplication with complex sums of waves (GridPE-complex), for real positions.

        q -> [q Re g(m), q Im g(m)],   k -> [k Re g(n), k Im g(n)],   g_k(m) = sum_i c_i exp(j omega_{i,k} . m)

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
        independent_waves: If True, each wave has its own channels: the head widens to ``2 n_waves head_dim``, and the
            logits are exactly translation invariant. Default: False, where it widens to ``2 head_dim``.
        literal: If True, as released, with new directions at every ``prepare``; if "frozen", the same with the first
            draw kept. Both need ``axes=2``. Default: False.

    Raises:
        ValueError: If ``head_dim`` or ``axes`` is less than 1, if ``extent``, ``frequencies`` or ``coefficients`` do
            not suit, or if ``literal`` is given with ``independent_waves``, ``coefficients`` or ``axes`` other than 2.

    Example:
        >>> import torch
        >>> from posenc import GridComplex, attention, grid
        >>> q = k = v = torch.randn(1, 2, 12, 16)  # (batch, heads, tokens, head_dim)
        >>> scheme = GridComplex(16, axes=2, independent_waves=True)
        >>> attention(q, k, v, scheme=scheme, q_pos=grid(3, 4)).shape
        torch.Size([1, 2, 12, 16])

    References:
        Li, Wu, Huang and Zhang 2024, arXiv 2406.07049, version 2, eqs. 17 and 22.
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
        frequencies: GivenFrequencies | None = None,
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
        sizes = simplex.wave_frequencies("GridComplex", axes, extent, frequencies, literal)
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
        """Restart the random draws of ``literal``."""
        if self.released is not None:
            self.released.reset_parameters()

    @override
    def prepare(self, pos: Positions) -> Sides:
        self._take(pos)
        if self.released is not None:
            both = simplex.sides(simplex.sums(pos, self.released(), self.coefficients))
            return Sides(Phases(both.q.cos, -both.q.sin), both.k)
        made = simplex.phases if self.independent_waves else simplex.sums
        g = made(pos, self.waves, self.coefficients)
        return Sides(g, g)

    @override
    def transform(self, x: Tensor, where: Sides, site: Literal["q", "k", "v", "o"]) -> Tensor:
        if site not in ("q", "k"):
            return x
        g = where.q if site == "q" else where.k
        x = require_count(x, g.cos.shape[-2], "GridComplex")
        wide = require_width(x, self.head_dim, "GridComplex").repeat_interleave(g.cos.shape[-1] // self.head_dim, -1)
        return torch.cat([wide * g.cos, wide * g.sin], -1).to(x.dtype)

    @override
    def rerotate(self, x: Tensor, where_from: Sides, where_to: Sides, site: Literal["k", "v"] = "k") -> Tensor:
        if site != "k" or self.claims.translation != "exact":
            return super().rerotate(x, where_from, where_to, site)
        to, start = (Rotation(torch.stack(where.k, -2), "half") for where in (where_to, where_from))
        return rotary.rotate(x, to.after(start))

    @override
    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        layers = self.waves[0] if self.released is None else self.released.now()[0 if site == "q" else 1]
        c, rows = [complex(*parts) for parts in self.coefficients], []
        for k, waves in enumerate(layers):
            each = [c[i] * torch.exp(1j * (waves[i] * p).sum()) for i in range(len(waves))]
            rows += [x[k] * g for g in (each if self.independent_waves else [torch.stack(each).sum()])]
        y = torch.stack(rows)
        return torch.cat([y.real, -y.imag if self.released is not None and site == "q" else y.imag])
