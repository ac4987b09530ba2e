"""Sum: several schemes at once; their embeddings and biases add, and their maps of q, k, v and o follow one another.

    e = e^1 + e^2 + ..        b_ij = b^1_ij + b^2_ij + ..       mask_ij = mask^1_ij and mask^2_ij and ..
    q -> T^n(.. T^1(q))       the same for k, v and mix; head outputs in reverse order, o -> T^1(.. T^n(o))

The claims follow from those of the parts, except ``translation`` in three cases, where the caller states it:
- Two parts map q and k, or v and o: together they are relative only if the maps commute.
- A part maps q and k, and another has a bias that reads the mapped queries (Shaw's does, ALiBi's does not).
- Two parts embed: their sum has inner products across the parts.

Source: Heo et al. 2024, arXiv 2403.13298, whose "RoPE + APE" is the first example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, Literal

from torch import Tensor, add, logical_and, nn, stack, zeros
from typing_extensions import override

from posenc.kernels import composition
from posenc.kernels.composition import FreshArguments, combined_effect, part_pairs
from posenc.positions import Positions
from posenc.scheme import At, Head, Scheme
from posenc.schemes import causal_nope, learned, mixed_rope, random, rope, shaw
from posenc.schemes.sinusoid import Sinusoid


class Sum(Scheme):
    """Sum of schemes that all act on the same positions.

        e = sum_n e^n,   b_ij = sum_n b^n_ij,   T = T^N .. T^1

    Args:
        parts: Schemes that read the same positions.
        translation: Translation claim of the sum: "exact", "expected" or "none". Only where it does not follow from the
            parts (see the module); None, the default, to derive it.

    Raises:
        ValueError: If there is no part, the parts differ in axes or widths or have no position in common, or
            ``translation`` is missing or differs from the claim that follows from the parts.

    Example:
        >>> import torch
        >>> from posenc import ALiBi, RoPE, Sum, attention, sequence
        >>> scheme = Sum([RoPE(12), ALiBi(4)])
        >>> q, k, v = torch.randn(3, 1, 4, 6, 12).unbind()  # each (B, H, N, D)
        >>> attention(q, k, v, scheme=scheme, q_pos=sequence(6)).shape
        torch.Size([1, 4, 6, 12])

    References:
        Heo, Park, Han and Yun, 2024, "Rotary Position Embedding for Vision Transformer", arXiv 2403.13298.
    """

    cite = mixed_rope.MixedRoPE.cite
    shown = "Sum([RoPE(64), ALiBi(4)])"
    examples = (
        FreshArguments({"parts": lambda: [learned.Learned(12, 24), rope.RoPE(12)]}),
        FreshArguments({"parts": lambda: [causal_nope.CausalNoPE(0.5), rope.RoPE(12)]}),
        FreshArguments({"parts": lambda: [causal_nope.CausalNoPE(), shaw.Shaw(12, 4, values=False)]}),
        FreshArguments({"parts": lambda: [rope.RoPE(12), shaw.Shaw(12, 4)], "translation": lambda: "expected"}),
        FreshArguments({"parts": lambda: [Sinusoid(12), random.Random(12, 24)], "translation": lambda: "expected"}),
    )

    parts: Iterable[Any]

    def __init__(self, parts: Sequence[Scheme], *, translation: composition.Translation | None = None) -> None:
        super().__init__()
        composition.refuse_no_schemes("Sum", parts)
        rows = [part.out_dim for part in parts if "embed" in part.claims.sites]
        composition.refuse_unequal_widths("Sum", "rows", rows)
        composition.refuse_unequal_widths("Sum", "heads", [part.head_width for part in parts])
        translation = composition.translation_of(parts, translation)
        # a sum of rows of constant length has constant length only if it is translation invariant
        isometric = (len(rows) < 2 or translation == "exact") and all(part.claims.isometric for part in parts)
        self.parts = nn.ModuleList(parts)
        self.claims = composition.joint_claims("Sum", parts, translation=translation, isometric=isometric)
        composition.copy_declarations(self, {f"parts.{place}": part for place, part in enumerate(parts)})

    def reset_parameters(self) -> None:
        """Draw the initial state of every part again, also after the module was built on the meta device."""
        composition.reset(self.parts)

    def _at(self, site: str, values: Any) -> list[tuple[Any, Any]]:
        """The parts that act at a site with their share of ``values``, in the order in which they act."""
        # ``relate`` returns a value with ``parts``; where no part acts the values may be None
        shares = getattr(values, "parts", values) if site in self.claims.sites else [None for _ in self.parts]
        acting = [(part, share) for part, share in zip(self.parts, shares, strict=True) if site in part.claims.sites]
        return acting[::-1] if site == "o" else acting

    @property
    @override
    def head_width(self) -> int | None:
        return next((part.head_width for part in self.parts if part.head_width is not None), None)

    @property
    @override
    def out_dim(self) -> int:
        rows = self._at("embed", self.parts)
        return rows[0][0].out_dim if rows else super().out_dim

    @override
    def prepare(self, pos: Positions) -> tuple[Any, ...]:
        return tuple(part.prepare(pos) for part in self.parts)  # each part checks the positions

    @override
    def relate(self, where_q: Any, where_k: Any) -> Any:
        return part_pairs(part.relate(q, k) for part, q, k in zip(self.parts, where_q, where_k, strict=True))

    @override
    def embed(self, where: Any) -> Tensor:
        rows = [part.embed(w) for part, w in self._at("embed", where)]
        return reduce(add, rows) if rows else super().embed(where)

    @override
    def transform(self, x: Tensor, where: Any, site: Literal["q", "k", "v", "o"]) -> Tensor:
        return reduce(lambda y, acting: acting[0].transform(y, acting[1], site), self._at(site, where), x)

    @override
    def rerotate(self, x: Tensor, where_from: Any, where_to: Any, site: Literal["k", "v"] = "k") -> Tensor:
        acting = self._at(site, zip(where_from, where_to, strict=True))
        if len(acting) > 1:  # the maps need not commute
            return super().rerotate(x, where_from, where_to, site)
        return acting[0][0].rerotate(x, *acting[0][1], site) if acting else x

    @override
    def keep(self, x: Tensor, where: Any) -> Tensor | None:
        return combined_effect(composition.refuse_two_kept, [part.keep(x, w) for part, w in self._at("bias", where)])

    @override
    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Any, attn_mask: Tensor | None) -> Tensor | None:
        return combined_effect(add, [part.bias(q, k, kept, p, attn_mask) for part, p in self._at("bias", pair)])

    @override
    def value_bias(self, weights: Tensor, pair: Any) -> Tensor | None:
        return combined_effect(add, [part.value_bias(weights, p) for part, p in self._at("value_bias", pair)])

    @override
    def mask(self, pair: Any) -> Tensor | None:
        return combined_effect(logical_and, [part.mask(p) for part, p in self._at("mask", pair)])

    @override
    def mix(self, x: Tensor, where: Any) -> Tensor:
        return reduce(lambda y, acting: acting[0].mix(y, acting[1]), self._at("mix", where), x)

    @override
    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Any) -> Callable[..., Tensor] | None:
        acting = [(a, p) for a, p in zip(self.parts, pair.parts, strict=True) if a.claims.sites & {"bias", "mask"}]
        mods = [part.score_mod(q, kept, p) for part, p in acting]
        if not mods or None in mods:
            return None
        return lambda score, b, h, i, j: reduce(lambda s, mod: mod(s, b, h, i, j), mods, score)

    @override
    def define_rows(self, p: Tensor) -> Tensor:
        return sum((part.define_rows(p) for part, _ in self._at("embed", self.parts)), zeros(()))

    @override
    def define_transform(self, x: Tensor, p: Tensor, site: str, head: Head) -> Tensor:
        return reduce(lambda y, acting: acting[0].define_transform(y, p, site, head), self._at(site, self.parts), x)

    @override
    def define_bias(self, at: At) -> Tensor:
        return sum((part.define_bias(at) for part, _ in self._at("bias", self.parts)), zeros(()))

    @override
    def define_value_bias(self, at: At) -> Tensor:
        return sum((part.define_value_bias(at) for part, _ in self._at("value_bias", self.parts)), zeros(()))

    @override
    def define_mask(self, at: At) -> bool:
        return all(part.define_mask(at) for part, _ in self._at("mask", self.parts))

    @override
    def define_mix(self, x: Tensor, pos: Positions, n: int) -> Tensor:
        for part, _ in self._at("mix", self.parts):
            x = stack([part.define_mix(x, pos, m) for m in range(len(x))])
        return x[n]
