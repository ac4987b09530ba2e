"""DAPE: data-adaptive positional encoding; a small network corrects a bias from the logits of all heads.

    s_ij = a_ij + b_ij + f([a_ij; b_ij]),     f(y) = W_2 g(W_1 y + c_1) + c_2,   g = leaky ReLU

a_ij and b_ij have one number per head: the scaled logits and a static bias, such as ALiBi's. f maps 2 H numbers to H,
the same for every pair, so the correction of a head depends on the content that all heads see.

Source: Zheng et al. 2024, arXiv 2405.14722, section 3, and the authors' code (github chuanyang-Zheng/DAPE, there
"CAPE").

Conventions:
- It wraps a scheme whose only attention sites are a bias and a mask: ``DAPE(ALiBi(8), heads=8)``.
- Logits are those of transformed queries and keys, with the softmax scale, as in that code.
- f starts as torch's linear layers, with 32 hidden channels and slope 0.01.
- Keys that are masked get no weight whatever f returns. A pair with a token without a position has no correction.
- Decoding needs the keys alone. The second version (arXiv 2410.04798) convolves along the keys and is not here: with a
  cache its released code computes other values than in training.
- Heads read each other. A multiple m of ``heads`` query heads makes m groups: the first of each m neighbors, and so on.
- It is equal to the scalar definition and to a transcription of the authors' forward; no package of theirs installs.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from posenc.claims import Read
from posenc.kernels.composition import FreshArguments, copy_declarations, reset
from posenc.kernels.grouped_heads import grouped_logits
from posenc.kernels.pairs import Divisible, Pairs
from posenc.positions import Positions
from posenc.scheme import At, Head, Scheme
from posenc.schemes.alibi import ALiBi
from posenc.schemes.kerple_log import KERPLELog
from posenc.whole_numbers import are_whole

SLOPE = 0.01
"""Slope of the leaky ReLU below 0, torch's default."""


class LogitPairs(NamedTuple):
    """Positions of queries and keys, and the prepared pairs of the corrected scheme."""

    of: Pairs
    own: Divisible

    def queries(self, part: slice) -> LogitPairs:
        """Return the pairs of some of the queries with all keys."""
        return LogitPairs(self.of.queries(part), self.own.queries(part))


class UndividedLogitPairs(NamedTuple):
    """``LogitPairs`` of a scheme whose pairs cannot be restricted to some queries."""

    of: Pairs
    own: Any


class DAPE(Scheme):
    """Data-adaptive positional encoding: a network of logits and biases of all heads is added to the bias.

        s_ij = a_ij + b_ij + f([a_ij; b_ij])

    Args:
        scheme: Scheme with a bias and no map of q, k, v or o, such as ``ALiBi(8)``, ``KERPLELog(8)`` or ``FIRE(8)``.
        heads: Number H of query heads.
        hidden: Width of the hidden layer of f. Default: 32.
        generator: Random generator of the initial weights of f. Default: torch's global generator.

    Raises:
        ValueError: If ``scheme`` has no bias or acts elsewhere too, or ``heads`` or ``hidden`` is not a whole number of
            at least 1.

    Example:
        >>> import torch
        >>> from posenc import DAPE, ALiBi, attention, sequence
        >>> q = k = v = torch.randn(1, 4, 10, 16)  # (batch, heads, tokens, head_dim)
        >>> attention(q, k, v, scheme=DAPE(ALiBi(4), heads=4), q_pos=sequence(10), causal=True).shape
        torch.Size([1, 4, 10, 16])

    References:
        Zheng, Gao, Shi, Huang, Li, Xiong, Ren, Ng, Jiang, Li and Li 2024, "DAPE: Data-Adaptive Positional Encoding for
        Length Extrapolation", arXiv 2405.14722.
    """

    cite = """@inproceedings{zheng2024dape,
  title={DAPE: Data-Adaptive Positional Encoding for Length Extrapolation},
  author={Zheng, Chuanyang and Gao, Yihang and Shi, Han and Huang, Minbin and Li, Jingyao and Xiong, Jing and
          Ren, Xiaozhe and Ng, Michael and Jiang, Xin and Li, Zhenguo and Li, Yu},
  booktitle={NeurIPS}, year={2024}, note={arXiv:2405.14722}}"""
    shown = "DAPE(ALiBi(4), heads=4)"
    examples = (
        FreshArguments({"scheme": lambda: ALiBi(4), "heads": lambda: 4, "hidden": lambda: 5}),
        FreshArguments({"scheme": lambda: KERPLELog(4), "heads": lambda: 4, "hidden": lambda: 3}),
    )

    scheme: Any
    inner: nn.Parameter
    outer: nn.Parameter

    def __init__(
        self, scheme: Scheme, heads: int, *, hidden: int = 32, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        sites = scheme.claims.sites if isinstance(scheme, Scheme) else frozenset()
        if "bias" not in sites or sites - {"bias", "mask"}:
            given = f"{type(scheme).__name__}, which acts at {', '.join(sorted(sites)) or 'no site'}"
            raise ValueError(f"DAPE corrects a scheme with a bias alone, as DAPE(ALiBi(8), heads=8); got {given}.")
        if not are_whole(heads, hidden) or heads % (scheme.head_count or 1):
            raise ValueError(
                "DAPE needs whole numbers: heads >= 1 that its scheme is built for, and hidden >= 1; got "
                f"heads={heads!r}, hidden={hidden!r}, and a scheme for {scheme.head_count or 'any number of'} heads."
            )
        self.scheme, self.heads = scheme, heads
        self.inner = nn.Parameter(torch.empty(hidden, 2 * heads + 1))  # W_1, and c_1 as the last column
        self.outer = nn.Parameter(torch.empty(heads, hidden + 1))  # W_2 and c_2
        self._reset_network(generator)
        own = "layer and head" if heads > 1 else "layer"
        self.claims = dataclasses.replace(scheme.claims, learned=True, sharing=own)
        copy_declarations(self, {"scheme": scheme})
        self.bias_reads = scheme.bias_reads | frozenset[Read]({"q", "k"})

    def reset_parameters(self) -> None:
        """Draw the network and the scheme again, also after the module was built on the meta device."""
        self._reset_network(None)
        reset([self.scheme])

    def _reset_network(self, generator: torch.Generator | None) -> None:
        for layer in (self.inner, self.outer):
            bound = (layer.shape[1] - 1) ** -0.5
            nn.init.uniform_(layer, -bound, bound, generator=generator)

    @override
    def prepare(self, pos: Positions) -> tuple[Positions, Any]:
        return self._take(pos), self.scheme.prepare(pos)

    @override
    def relate(self, where_q: Any, where_k: Any) -> LogitPairs | UndividedLogitPairs:
        of, own = Pairs(where_q[0], where_k[0]), self.scheme.relate(where_q[1], where_k[1])
        return LogitPairs(of, own) if isinstance(own, Divisible) else UndividedLogitPairs(of, own)

    @override
    def keep(self, x: Tensor, where: Any) -> Tensor | None:
        return self.scheme.keep(x, where[1])

    @override
    def mask(self, pair: Any) -> Tensor | None:
        return self.scheme.mask(pair.own)

    @override
    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Any, attn_mask: Tensor | None) -> Tensor:
        if q.shape[1] % self.heads:
            raise ValueError(
                f"this DAPE mixes {self.heads} heads and meets {q.shape[1]}. Build it with heads={q.shape[1]}."
            )
        a, b = grouped_logits(q, k), self.scheme.bias(q, k, kept, pair.own, attn_mask)
        kind = torch.promote_types(torch.promote_types(a.dtype, b.dtype), self.inner.dtype)
        a, b = a.to(kind), b.to(kind).expand(a.shape)
        both = torch.cat([t.unflatten(1, (self.heads, -1)) for t in (a, b)], 1).movedim(1, -1)  # (B, copies, Q, K, 2 H)
        inner, outer = self.inner.to(kind), self.outer.to(kind)
        hidden = functional.leaky_relu(functional.linear(both, inner[:, :-1], inner[:, -1]), SLOPE)
        added = functional.linear(hidden, outer[:, :-1], outer[:, -1]).movedim(-1, 1).flatten(1, 2)
        return pair.of.neutral(b + added)

    @override
    def define_bias(self, at: At) -> Tensor:
        assert at.heads_q is not None
        assert at.heads_k is not None
        copies = at.head.count // self.heads
        mates = [Head(own * copies + at.head % copies, at.head.count) for own in range(self.heads)]
        parts = [dataclasses.replace(at, q=at.heads_q[h], k=at.heads_k[h], head=h) for h in mates]
        b, own = torch.stack([self.scheme.define_bias(part) for part in parts]), at.head.among(self.heads)
        y, result = torch.cat([torch.stack([part.q[at.i] @ part.k[at.j] for part in parts]), b]), self.outer[own, -1]
        for row, weight in zip(self.inner, self.outer[own, :-1], strict=True):
            z = row[:-1] @ y + row[-1]
            result = result + weight * (z if z > 0 else SLOPE * z)
        return b[own] + result

    @override
    def define_mask(self, at: At) -> bool:
        return self.scheme.define_mask(at)
