"""Scaled: a constant factor on all that a scheme adds to rows, logits, head outputs or tokens.

    e -> c e        b_ij -> c b_ij        a^V -> c a^V        x + f(x) -> x + c f(x)

Rows of a sinusoid have length sqrt(d/2), whatever the size of the tokens that they are added to.
``Scaled(Sinusoid(d), 0.02)`` makes them fit tokens of size 0.02; Vaswani et al. multiply the tokens by sqrt(d) instead.
Masks are not scaled. Schemes that map q, k, v or o are refused: a rotation is weakened by its frequencies, not by a
factor.

Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.4 (the factor sqrt(d) on token embeddings).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from posenc.kernels.composition import FreshArguments, copy_declarations, reset
from posenc.positions import Positions
from posenc.scheme import At, Scheme
from posenc.schemes.peg import PEG
from posenc.schemes.shaw import Shaw
from posenc.schemes.sinusoid import Sinusoid


class Scaled(Scheme):
    """A scheme whose added terms are multiplied by a constant factor c.

        e -> c e,   b_ij -> c b_ij,   a^V -> c a^V,   x + f(x) -> x + c f(x)

    Args:
        scheme: Scheme that acts at ``embed``, ``bias``, ``value_bias`` or ``mix``, and not at q, k, v or o.
        factor: c, finite and not 0.

    Raises:
        ValueError: If ``scheme`` adds nothing or maps q, k, v or o, or ``factor`` is 0 or not finite.

    Example:
        >>> from posenc import Scaled, Sinusoid, sequence
        >>> scheme = Scaled(Sinusoid(12), 0.02)
        >>> scheme.embed(scheme.prepare(sequence(6))).shape
        torch.Size([6, 12])

    References:
        Vaswani, Shazeer, Parmar, Uszkoreit, Jones, Gomez, Kaiser and Polosukhin, 2017, "Attention Is All You Need",
        arXiv 1706.03762, section 3.4.
    """

    cite = """@inproceedings{vaswani2017attention,
  title={Attention Is All You Need},
  author={Vaswani, Ashish and Shazeer, Noam and Parmar, Niki and Uszkoreit, Jakob and Jones, Llion and Gomez, Aidan N
          and Kaiser, Lukasz and Polosukhin, Illia},
  booktitle={NeurIPS}, year={2017}, note={arXiv:1706.03762}}"""
    shown = "Scaled(ALiBi(4), 0.5)"
    examples = (
        FreshArguments({"scheme": lambda: Sinusoid(12), "factor": lambda: 0.02}),
        FreshArguments({"scheme": lambda: Sinusoid(12), "factor": lambda: -3.0}),
        FreshArguments({"scheme": lambda: Shaw(12, 4), "factor": lambda: 0.5}),
        FreshArguments({"scheme": lambda: Shaw(12, 4, literal=True), "factor": lambda: 0.25}),
        FreshArguments({"scheme": lambda: PEG(12), "factor": lambda: 0.5}),
    )

    scheme: Any

    def __init__(self, scheme: Scheme, factor: float) -> None:
        super().__init__()
        if not isinstance(scheme, Scheme):
            raise ValueError(f"Scaled takes a scheme and a factor; got {type(scheme).__name__}.")
        name, sites = type(scheme).__name__, scheme.claims.sites
        maps, adds = sorted(sites & {"q", "k", "v", "o"}), sites & {"embed", "bias", "value_bias", "mix"}
        if maps or not adds:
            raise ValueError(
                f"Scaled multiplies what a scheme adds, and {name} "
                + (f"maps {', '.join(maps)}. Change its frequencies or its positions." if maps else "adds nothing.")
            )
        if not math.isfinite(factor) or factor == 0:
            raise ValueError(f"Scaled multiplies by a finite number other than 0; got {factor:g}. NoPE adds nothing.")
        self.scheme, self.factor, self.claims = scheme, factor, scheme.claims
        copy_declarations(self, {"scheme": scheme})

    def reset_parameters(self) -> None:
        """Draw the scheme's initial state again, also after the module was built on the meta device."""
        reset([self.scheme])

    @property
    @override
    def head_width(self) -> int | None:
        return self.scheme.head_width

    @property
    @override
    def out_dim(self) -> int:
        return self.scheme.out_dim

    @override
    def prepare(self, pos: Positions) -> Any:
        return self.scheme.prepare(pos)

    @override
    def relate(self, where_q: Any, where_k: Any) -> Any:
        return self.scheme.relate(where_q, where_k)

    @override
    def embed(self, where: Any) -> Tensor:
        return self.factor * self.scheme.embed(where)

    @override
    def keep(self, x: Tensor, where: Any) -> Tensor | None:
        return self.scheme.keep(x, where)

    @override
    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Any, attn_mask: Tensor | None) -> Tensor | None:
        bias = self.scheme.bias(q, k, kept, pair, attn_mask)
        return None if bias is None else self.factor * bias

    @override
    def value_bias(self, weights: Tensor, pair: Any) -> Tensor | None:
        added = self.scheme.value_bias(weights, pair)
        return None if added is None else self.factor * added

    @override
    def mask(self, pair: Any) -> Tensor | None:
        return self.scheme.mask(pair)

    @override
    def mix(self, x: Tensor, where: Any) -> Tensor:
        return x + self.factor * (self.scheme.mix(x, where) - x) if "mix" in self.claims.sites else x

    @override
    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Any) -> Callable[..., Tensor] | None:
        inner = self.scheme.score_mod(q, kept, pair)

        def scaled(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            assert inner is not None
            biased = inner(score, b, h, i, j)
            return torch.where(biased == -torch.inf, biased, score + self.factor * (biased - score))

        return None if inner is None else scaled

    @override
    def define_rows(self, p: Tensor) -> Tensor:
        return self.factor * self.scheme.define_rows(p)

    @override
    def define_bias(self, at: At) -> Tensor:
        return self.factor * self.scheme.define_bias(at)

    @override
    def define_value_bias(self, at: At) -> Tensor:
        return self.factor * self.scheme.define_value_bias(at)

    @override
    def define_mask(self, at: At) -> bool:
        return self.scheme.define_mask(at)

    @override
    def define_mix(self, x: Tensor, pos: Positions, n: int) -> Tensor:
        return x[n] + self.factor * (self.scheme.define_mix(x, pos, n) - x[n])
