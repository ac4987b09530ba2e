"""BiPE: bilevel positional encoding; a token is encoded by its place in its segment, and a pair by its segments.

    x_n -> x_n + e(b_n),       s_ij = T(q_i, a_i) . T(k_j, a_j) + bias(a_i, a_j)

a is the number of a token's segment, b its place within. ``e`` is an absolute encoding, which short segments never
leave untrained; rotation or bias by segments extrapolates.

Source: He et al. 2024, arXiv 2401.16421, section 3, and the authors' code (github zhenyuhe00/BiPE).

Conventions:
- Axes are (segment, place). ``posenc.segments`` makes such positions from the separators of a text.
- The authors' ``e`` is ``Learned(dim, 1024)``. Their BiPE-RoPE is ``RoPE``; their BiPE-ALiBi has slopes 96 times as
  large, because a segment has many tokens: ``ALiBi(h, slopes=[96 * m for m in plain_slopes(h)])``.
- It decodes with a cache: a token's state is its two numbers. The authors' code refuses a cache.
- It is made of two schemes, so it is equal to the scalar definition of both; no implementation installs here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

from torch import Tensor
from typing_extensions import override

from posenc.kernels import composition
from posenc.kernels.composition import FreshArguments
from posenc.positions import Positions
from posenc.scheme import At, Head, Scheme
from posenc.schemes.alibi import ALiBi, plain_slopes
from posenc.schemes.learned import Learned
from posenc.schemes.rope import RoPE

SLOPES = tuple(96 * m for m in plain_slopes(1))
"""Slope of BiPE-ALiBi for one head."""


class BiPE(Scheme):
    """Bilevel positional encoding: one scheme embeds the place in a segment, another relates segments.

        x -> x + e(b),   q, k and logits by the number a of the segment

    Args:
        within: Scheme of one axis that embeds the place b, such as ``Learned(dim, 1024)``.
        between: Scheme of one axis that acts in attention on segments a, such as ``RoPE(64)`` or ``ALiBi(8)``.

    Raises:
        ValueError: If one is not a scheme, ``within`` does more than embed, ``between`` embeds or mixes, or one reads
            several axes.

    Example:
        >>> import torch
        >>> from posenc import BiPE, Learned, RoPE, attention, segments
        >>> pos = segments(torch.tensor([False, False, True, False, True, False]))
        >>> scheme = BiPE(Learned(32, 1024), RoPE(16))
        >>> scheme.embed(scheme.prepare(pos)).shape
        torch.Size([6, 32])
        >>> q = k = v = torch.randn(1, 2, 6, 16)
        >>> attention(q, k, v, scheme=scheme, q_pos=pos).shape
        torch.Size([1, 2, 6, 16])

    References:
        He, Feng, Luo, Yang, Wang, Xu, Zhang, Yang and He 2024, "Two Stones Hit One Bird: Bilevel Positional Encoding
        for Better Length Extrapolation", arXiv 2401.16421.
    """

    cite = """@inproceedings{he2024two,
  title={Two Stones Hit One Bird: Bilevel Positional Encoding for Better Length Extrapolation},
  author={He, Zhenyu and Feng, Guhao and Luo, Shengjie and Yang, Kai and Wang, Liwei and Xu, Jingjing and Zhang, Zhi and
          Yang, Hongxia and He, Di},
  booktitle={ICML}, year={2024}, note={arXiv:2401.16421}}"""
    shown = "BiPE(Learned(32, 64), ALiBi(4))"
    examples = (
        FreshArguments({"within": lambda: Learned(12, 24), "between": lambda: RoPE(12)}),
        FreshArguments({"within": lambda: Learned(12, 24), "between": lambda: ALiBi(1, slopes=SLOPES)}),
    )

    within: Any
    between: Any

    def __init__(self, within: Scheme, between: Scheme) -> None:
        super().__init__()
        composition.refuse_no_schemes("BiPE", [within, between], "BiPE(Learned(dim, 1024), RoPE(64))")
        sites, axes = between.claims.sites, [part.claims.axes for part in (within, between)]
        if within.claims.sites != {"embed"} or sites & {"embed", "mix"} or not {*axes} <= {1, None}:
            raise ValueError(
                "BiPE has a scheme that embeds places and one that acts in attention, both of one axis, as "
                f"BiPE(Learned(dim, 1024), RoPE(64)); got {type(within).__name__} and {type(between).__name__}."
            )
        self.within, self.between = within, between
        parts = (between, within)
        known = {part.claims.translation for part in parts}
        translation = "none" if "none" in known else "expected" if "expected" in known else "exact"
        isometric = all(part.claims.isometric for part in parts)
        joint = composition.joint_claims("BiPE", parts, translation=translation, isometric=isometric)
        self.claims = dataclasses.replace(joint, axes=2, range=tuple(part.claims.limits()[0] for part in parts))
        composition.copy_declarations(self, {"within": within, "between": between})

    def reset_parameters(self) -> None:
        """Draw the state of both schemes again, also after the module was built on the meta device."""
        composition.reset([self.within, self.between])

    @property
    @override
    def head_width(self) -> int | None:
        return self.between.head_width

    @property
    @override
    def head_count(self) -> int | None:
        return self.between.head_count

    @property
    @override
    def out_dim(self) -> int:
        return self.within.out_dim

    @override
    def prepare(self, pos: Positions) -> tuple[Any, Any]:
        if isinstance(pos, Positions) and pos.axes == 1:
            raise ValueError(
                "BiPE reads the number of a segment and the place in it; these positions have one axis. Make them by "
                "posenc.segments(..), or give a model the rule: LanguageConfig(.., segments=SegmentRule(..))."
            )
        self._take(pos)
        segment, place = (dataclasses.replace(pos, coords=pos.coords[..., axis, None], lattice=None) for axis in (0, 1))
        return self.within.prepare(place), self.between.prepare(segment)

    @override
    def relate(self, where_q: Any, where_k: Any) -> Any:
        return self.between.relate(where_q[1], where_k[1])

    @override
    def embed(self, where: Any) -> Tensor:
        return self.within.embed(where[0])

    @override
    def transform(self, x: Tensor, where: Any, site: Literal["q", "k", "v", "o"]) -> Tensor:
        return self.between.transform(x, where[1], site)

    @override
    def rerotate(self, x: Tensor, where_from: Any, where_to: Any, site: Literal["k", "v"] = "k") -> Tensor:
        return self.between.rerotate(x, where_from[1], where_to[1], site)

    @override
    def keep(self, x: Tensor, where: Any) -> Tensor | None:
        return self.between.keep(x, where[1])

    @override
    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Any, attn_mask: Tensor | None) -> Tensor | None:
        return self.between.bias(q, k, kept, pair, attn_mask)

    @override
    def value_bias(self, weights: Tensor, pair: Any) -> Tensor | None:
        return self.between.value_bias(weights, pair)

    @override
    def mask(self, pair: Any) -> Tensor | None:
        return self.between.mask(pair)

    @override
    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Any) -> Callable[..., Tensor] | None:
        return self.between.score_mod(q, kept, pair)

    @override
    def define_rows(self, p: Tensor) -> Tensor:
        return self.within.define_rows(p[:, 1:])

    @override
    def define_transform(self, x: Tensor, p: Tensor, site: str, head: Head) -> Tensor:
        return self.between.define_transform(x, p[:1], site, head) if site in self.claims.sites else x

    @override
    def define_bias(self, at: At) -> Tensor:
        return self.between.define_bias(dataclasses.replace(at, q_pos=at.q_pos[:, :1], k_pos=at.k_pos[:, :1]))

    @override
    def define_value_bias(self, at: At) -> Tensor:
        return self.between.define_value_bias(dataclasses.replace(at, q_pos=at.q_pos[:, :1], k_pos=at.k_pos[:, :1]))

    @override
    def define_mask(self, at: At) -> bool:
        return self.between.define_mask(dataclasses.replace(at, q_pos=at.q_pos[:, :1], k_pos=at.k_pos[:, :1]))
