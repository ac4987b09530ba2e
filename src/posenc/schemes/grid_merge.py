"""GridMerge: the additive variant of GridPE; real and imaginary part of a sum of waves are added to queries and keys.

    q' = q + Re(W_m) + Im(W_m),  the same for k;   W_m = (g_1 .. g_d),  g_k(m) = sum_i c_i exp(j omega_{i,k} . m)

The inner product of the added vectors is translation invariant on average over positions. The cross terms with q and k
are not.

Source: Li et al. 2024, arXiv 2406.07049, version 2, eqs. 17 and 21.

Conventions:
- ``c_i = 1 / sqrt(n_waves)`` by default. The number of waves per channel is ``n_waves = P + 1``, or 1 for P = 1.
- The directions of the waves of channel k form a regular simplex. Each channel has its own random rotation of it,
  drawn once from ``rotation_seed``.
- The lengths ``|omega_s|`` are repeated where there are more channels than lengths.
- ``literal=True``: as released (github BoyangL1/gridpe-vision). The sum is added to the input of every block and not to
  q and k: it is an embedding of width ``dim``. The c_i are fixed complex numbers, ``|omega_k| = 200^(k/dim)``, and
  directions are drawn anew at every ``prepare``. ``"frozen"`` keeps the first draw.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from posenc.kernels import simplex
from posenc.kernels.shape_checks import require_count, require_width
from posenc.kernels.simplex import Coefficients, GivenFrequencies, Phases, Released
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class GridMerge(Scheme):
    """GridPE by addition of sums of waves to queries and keys (GridPE-merge), for real positions.

        q' = q + Re(W_m) + Im(W_m),   k' = k + Re(W_n) + Im(W_n)

    Args:
        head_dim: Width d of one head.
        axes: Number P of axes of the positions. Default: 2.
        dim: Width of the embedding with ``literal``, that of the input of a block. Default: ``head_dim``.
        extent: Distance that the longest wave spans, in units of position. Default: 14.
        frequencies: Lengths ``|omega_s|`` of the wave vectors, S numbers or a tensor ``(S,)``, in radians per unit of
            position; ``economy(shortest=2.0, ratio=1.5)`` of ``posenc.frequencies`` has other scales. Default:
            ``2 pi / (4 r^s)`` with ``r = e^(1/P)``, up to the first wavelength of at least ``extent``.
        rotation_seed: Seed of the random directions. Default: 0.
        coefficients: Complex coefficients ``c_i`` as pairs (real part, imaginary part), ``(n_waves, 2)``, for example
            ``posenc.kernels.simplex.unitary_sums(axes)``. Default: ``1 / sqrt(n_waves)``.
        literal: If True, as released, with new directions at every ``prepare``; if "frozen", the same with the first
            draw kept. Both need ``axes=2``. Default: False.

    Raises:
        ValueError: If ``head_dim``, ``dim`` or ``axes`` is less than 1, if ``extent``, ``frequencies`` or
            ``coefficients`` do not suit, or if ``literal`` is given with ``coefficients`` or ``axes`` other than 2.

    Example:
        >>> import torch
        >>> from posenc import GridMerge, attention, grid
        >>> q = k = v = torch.randn(1, 2, 12, 16)  # (batch, heads, tokens, head_dim)
        >>> attention(q, k, v, scheme=GridMerge(16, axes=2), q_pos=grid(3, 4)).shape
        torch.Size([1, 2, 12, 16])

    References:
        Li, Wu, Huang and Zhang 2024, arXiv 2406.07049, version 2, eqs. 17 and 21.
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
        frequencies: GivenFrequencies | None = None,
        rotation_seed: int = 0,
        coefficients: Coefficients | None = None,
        literal: bool | Literal["frozen"] = False,
    ) -> None:
        super().__init__()
        if head_dim < 1 or (dim is not None and dim < 1):
            raise ValueError(f"GridMerge needs head_dim >= 1 and dim >= 1; got head_dim={head_dim}, dim={dim}.")
        sizes = simplex.wave_frequencies("GridMerge", axes, extent, frequencies, literal)
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
        """Restart the random draws of ``literal``."""
        if self.released is not None:
            self.released.reset_parameters()

    @property
    @override
    def head_width(self) -> int | None:
        return self.head_dim if self.released is None else None

    @property
    @override
    def out_dim(self) -> int:
        return super().out_dim if self.released is None else self.dim

    @override
    def prepare(self, pos: Positions) -> Tensor:
        """Return the added vectors, ``(.., 1, N, head_dim)``, or with ``literal`` the embedding, ``(.., N, dim)``."""
        self._take(pos)
        if self.released is None:
            return _added(simplex.sums(pos, self.waves, self.coefficients), pos)
        return _added(simplex.sums(pos, self.released(), self.coefficients), pos).squeeze(-3)

    @override
    def transform(self, x: Tensor, where: Tensor, site: Literal["q", "k", "v", "o"]) -> Tensor:
        if site not in self.claims.sites:
            return x
        return (require_count(require_width(x, self.head_dim, "GridMerge"), where.shape[-2], "GridMerge") + where).to(
            x.dtype
        )

    @override
    def embed(self, where: Tensor) -> Tensor:
        return super().embed(where) if self.released is None else where

    @override
    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        return x + torch.stack([_defined(waves, p, self.coefficients) for waves in self.waves[0]])

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        assert self.released is not None
        return torch.stack([_defined(waves, p, self.coefficients) for waves in self.released.now()[0]])


def _added(g: Phases, pos: Positions) -> Tensor:
    """Return ``Re g + Im g``, zero for tokens with ``placed=False``."""
    rows = g.cos + g.sin
    return rows if pos.placed is None else rows * pos.placed[..., None, :, None]


def _defined(waves: Tensor, p: Tensor, c: Coefficients) -> Tensor:
    """Return ``Re g + Im g`` of one channel at one position, by its formula."""
    g = torch.stack([complex(*c[i]) * torch.exp(1j * (waves[i] * p).sum()) for i in range(len(waves))]).sum()
    return g.real + g.imag
