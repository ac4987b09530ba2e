"""A scheme times a number: what it adds to rows, logits, outputs or tokens counts that much more or less.

    e -> c e        b_ij -> c b_ij        a^V -> c a^V        x + f(x) -> x + c f(x)

A sinusoid has rows of length sqrt(d/2), whatever the size of the tokens it is added to: ``Scaled(Sinusoid(d), 0.02)``
meets tokens of that size (Vaswani et al. multiply the tokens by sqrt(d) instead). Masks stay as they are. Maps of q, k,
v and o are no sums and are refused: a rotation is made weaker by its frequencies, not by a factor.

Source: Vaswani et al. 2017, arXiv 1706.03762, section 3.4 (the size of tokens beside positions).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posenc.kernels.composing import Anew, pass_on, reset
from posenc.positions import Positions
from posenc.scheme import At, Scheme
from posenc.schemes.peg import PEG
from posenc.schemes.shaw import Shaw
from posenc.schemes.sinusoid import Sinusoid


class Scaled(Scheme):
    """``c e``, ``c b_ij``, ``c a^V``, ``x + c f(x)`` of a scheme's ``e``, ``b``, ``a^V``, ``x + f(x)``.

    scheme: one that maps no queries, keys, values or outputs. factor: c, finite and not 0.
    """

    cite = """@inproceedings{vaswani2017attention,
  title={Attention Is All You Need},
  author={Vaswani, Ashish and Shazeer, Noam and Parmar, Niki and Uszkoreit, Jakob and Jones, Llion and Gomez, Aidan N
          and Kaiser, Lukasz and Polosukhin, Illia},
  booktitle={NeurIPS}, year={2017}, note={arXiv:1706.03762}}"""
    examples = (
        Anew({"scheme": lambda: Sinusoid(12), "factor": lambda: 0.02}),
        Anew({"scheme": lambda: Sinusoid(12), "factor": lambda: -3.0}),
        Anew({"scheme": lambda: Shaw(12, 4), "factor": lambda: 0.5}),
        Anew({"scheme": lambda: Shaw(12, 4, literal=True), "factor": lambda: 0.25}),
        Anew({"scheme": lambda: PEG(12), "factor": lambda: 0.5}),
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
        pass_on(self, {"scheme": scheme})

    def reset_parameters(self) -> None:
        """Draw the scheme's state anew (also after building on the meta device)."""
        reset([self.scheme])

    @property
    def head_width(self) -> int | None:
        return self.scheme.head_width

    @property
    def out_dim(self) -> int:
        return self.scheme.out_dim

    def prepare(self, pos: Positions) -> Any:
        return self.scheme.prepare(pos)

    def relate(self, where_q: Any, where_k: Any) -> Any:
        return self.scheme.relate(where_q, where_k)

    def embed(self, where: Any) -> Tensor:
        return self.factor * self.scheme.embed(where)

    def keep(self, x: Tensor, where: Any) -> Tensor | None:
        return self.scheme.keep(x, where)

    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Any, seen: Tensor | None) -> Tensor | None:
        bias = self.scheme.bias(q, k, kept, pair, seen)
        return None if bias is None else self.factor * bias

    def value_bias(self, weights: Tensor, pair: Any) -> Tensor | None:
        added = self.scheme.value_bias(weights, pair)
        return None if added is None else self.factor * added

    def mask(self, pair: Any) -> Tensor | None:
        return self.scheme.mask(pair)

    def mix(self, x: Tensor, where: Any) -> Tensor:
        return x + self.factor * (self.scheme.mix(x, where) - x) if "mix" in self.claims.sites else x

    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Any) -> Callable[..., Tensor] | None:
        inner = self.scheme.score_mod(q, kept, pair)

        def scaled(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            assert inner is not None
            biased = inner(score, b, h, i, j)
            return torch.where(biased == -torch.inf, biased, score + self.factor * (biased - score))

        return None if inner is None else scaled

    def define_rows(self, p: Tensor) -> Tensor:
        return self.factor * self.scheme.define_rows(p)

    def define_bias(self, at: At) -> Tensor:
        return self.factor * self.scheme.define_bias(at)

    def define_value_bias(self, at: At) -> Tensor:
        return self.factor * self.scheme.define_value_bias(at)

    def define_mask(self, at: At) -> bool:
        return self.scheme.define_mask(at)

    def define_mix(self, x: Tensor, pos: Positions, n: int) -> Tensor:
        return x[n] + self.factor * (self.scheme.define_mix(x, pos, n) - x[n])
