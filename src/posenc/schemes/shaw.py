"""Shaw: relative position representations; keys and values gain a learned vector for the clipped distance.

    e_ij = x_i W^Q (x_j W^K + a^K_{clip(j-i, -k, k)})^T / sqrt(d_z)        (eq. 4)
    z_i  = sum_j alpha_ij (x_j W^V + a^V_{clip(j-i, -k, k)})               (eq. 3)

Source: Shaw et al. 2018, arXiv 1803.02155.

Conventions:
- Distance is key minus query. The heads of a layer share one table. Tables start Glorot-uniform.
- No tensor (N, N, d) is built: ``q_i . a^K`` is computed once for each of the 2k+1 distances and gathered per pair, and
  attention weights are summed per distance before they multiply ``a^V``. Attention calls this for a block of queries at
  a time, so that no (N, N) tensor is stored either.

``literal=True`` is the variant that the Latin-square study of arXiv 2406.08272 ran under the name of Shaw (github
ljhearne/LSTNN_public), the skewed causal form of the Music Transformer (Huang et al. 2018, arXiv 1809.04281): no value
table, ``Er ~ N(0, 1)``, entry (i, j <= i) uses ``Er[k - (i - j)]``, and keys after the query are masked.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.kernels.pairs import Pairs, PairScheme
from posenc.positions import Positions
from posenc.scheme import At, Claims, Site


class Shaw(PairScheme):
    """Relative position representations: learned vectors on keys and values, one for each clipped distance.

        s_ij = q_i . (k_j + a^K_{clip(j-i)}),   o_i = sum_j alpha_ij (v_j + a^V_{clip(j-i)})

    Args:
        head_dim: Width of a head in channels.
        max_distance: Largest distance k with its own vector, at least 0; positions are whole numbers of any size.
        values: Whether values gain a vector ``a^V`` too (eq. 3).
        literal: Whether to use the causal form as released with arXiv 2406.08272, which has no ``a^V``.
        generator: Random generator for the initial tables; torch's default generator if None.

    Raises:
        ValueError: If ``head_dim`` is below 1 or ``max_distance`` below 0.

    Example:
        >>> import torch
        >>> from posenc import Shaw, attention, sequence
        >>> q, k, v = torch.randn(3, 1, 4, 6, 12).unbind()  # each (B, H, N, D)
        >>> attention(q, k, v, scheme=Shaw(12, max_distance=4), q_pos=sequence(6)).shape
        torch.Size([1, 4, 6, 12])

    References:
        Shaw, Uszkoreit and Vaswani, 2018, "Self-Attention with Relative Position Representations", arXiv 1803.02155,
        equations 3 and 4.
    """

    cite = """@inproceedings{shaw2018self,
  title={Self-Attention with Relative Position Representations},
  author={Shaw, Peter and Uszkoreit, Jakob and Vaswani, Ashish},
  booktitle={NAACL}, year={2018}, note={arXiv:1803.02155}}"""
    examples = (
        {"head_dim": 12, "max_distance": 4},
        {"head_dim": 12, "max_distance": 4, "values": False},
        {"head_dim": 12, "max_distance": 20},
        {"head_dim": 12, "max_distance": 4, "literal": True},
    )
    bias_reads = frozenset({"q"})
    conventions = ("literal",)

    keys: nn.Parameter
    values: nn.Parameter | None

    def __init__(
        self,
        head_dim: int,
        max_distance: int,
        *,
        values: bool = True,
        literal: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if head_dim < 1 or max_distance < 0:
            raise ValueError(
                f"Shaw needs head_dim >= 1 and max_distance >= 0; got head_dim={head_dim}, max_distance={max_distance}."
            )
        self.max_distance, self.literal = max_distance, literal
        shape, values = (2 * max_distance + 1, head_dim), values and not literal
        self.keys, self.values = nn.Parameter(torch.empty(shape)), nn.Parameter(torch.empty(shape)) if values else None
        self.reset_parameters(generator)
        sites: set[Site] = {"bias", *(["value_bias"] if values else []), *(["mask"] if literal else [])}
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=True,
            range=None,
            axes=1,
            sites=frozenset(sites),
            sharing="layer",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the initial tables again, also after the module was built on the meta device.

        Args:
            generator: Random generator; torch's default generator if None.
        """
        draw = nn.init.normal_ if self.literal else nn.init.xavier_uniform_
        for table in self.parameters():
            draw(table, generator=generator)

    @property
    @override
    def head_width(self) -> int:
        return self.keys.shape[1]

    @override
    def prepare(self, pos: Positions) -> Positions:
        return self._whole(pos)

    @override
    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, attn_mask: Tensor | None) -> Tensor:
        return self._by_distance(q).gather(-1, self._row(pair).expand(*q.shape[:-1], -1))

    @override
    def value_bias(self, weights: Tensor, pair: Pairs) -> Tensor | None:
        if self.values is None:
            return None
        wide = weights.to(torch.promote_types(weights.dtype, torch.float32))  # half precision cannot sum thousands
        total = wide.new_zeros(*weights.shape[:-1], 2 * self.max_distance + 2)
        total = total.scatter_add(-1, self._row(pair).expand(weights.shape), wide)
        return total[..., :-1].to(weights.dtype) @ self.values.to(weights.dtype)

    @override
    def mask(self, pair: Pairs) -> Tensor | None:
        return pair.before() if self.literal else None

    @override
    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        if self.values is not None:
            return None  # a^V needs the attention weights, which FlexAttention does not return
        by_distance, read, k = self._by_distance(q), pair.reader(), self.max_distance

        def relative(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            distance, placed = read(b, i, j)
            row = distance.clamp(-k, k).long() + k
            score = score + by_distance[b, h, i, row if placed is None else torch.where(placed, row, 2 * k + 1)]
            later = distance > 0 if placed is None else (distance > 0) & placed
            return torch.where(later, -torch.inf, score) if self.literal else score

        return relative

    def _by_distance(self, q: Tensor) -> Tensor:
        """Products ``q_i . a^K`` by distance, ``(B, H, Q, 2k+2)``; the last, for pairs without a position, is 0."""
        products = q @ self.keys.T.to(q.dtype)  # widened below: the gradient sums one number per pair
        return nn.functional.pad(products.to(torch.promote_types(q.dtype, torch.float32)), (0, 1))

    def _row(self, pair: Pairs) -> Tensor:
        """Table row of each pair, ``(Q, K)`` or ``(B, 1, Q, K)``; 2k+1 for pairs without a position."""
        k, placed = self.max_distance, pair.placed()
        row = pair.distance().clamp(-k, k).long() + k
        return row if placed is None else row.where(placed, 2 * k + 1)

    @override
    def define_bias(self, at: At) -> Tensor:
        distance = int(at.k_pos[at.j, 0] - at.q_pos[at.i, 0])
        return at.q[at.i] @ self.keys[max(-self.max_distance, min(distance, self.max_distance)) + self.max_distance]

    @override
    def define_value_bias(self, at: At) -> Tensor:
        assert self.values is not None
        distance = int(at.k_pos[at.j, 0] - at.q_pos[at.i, 0])
        return self.values[max(-self.max_distance, min(distance, self.max_distance)) + self.max_distance]

    @override
    def define_mask(self, at: At) -> bool:
        return bool(at.k_pos[at.j, 0] <= at.q_pos[at.i, 0])
