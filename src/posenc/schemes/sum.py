"""A sum of schemes: each acts at its own sites, and where several act their effects add or follow one another.

    e = e^1 + e^2 + ..        b_ij = b^1_ij + b^2_ij + ..       seen_ij = seen^1_ij and seen^2_ij and ..
    q -> T^n(.. T^1(q))       the same for k, v and mix; head outputs the other way round, o -> T^1(.. T^n(o))

What it claims follows from its parts, but for three cases, which the caller decides: two maps of q and k are relative
only if they commute; a bias may read queries that another part turned (Shaw's, no ALiBi); summed rows have a product.

Source: Heo et al. 2024, arXiv 2403.13298, whose "RoPE + APE" is the first example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, Literal

import torch
from torch import Tensor, nn

from posenc.kernels import composing
from posenc.kernels.composing import Anew, Translation, folded
from posenc.positions import Positions
from posenc.scheme import At, Head, Scheme
from posenc.schemes.causal_nope import CausalNoPE
from posenc.schemes.learned import Learned
from posenc.schemes.random import Random
from posenc.schemes.rope import RoPE
from posenc.schemes.shaw import Shaw
from posenc.schemes.sinusoid import Sinusoid


class Sum(Scheme):
    """``e = sum_n e^n``, ``b = sum_n b^n``, ``T = T^N .. T^1``: every part acts, on the same positions.

    parts: schemes that read the same positions. translation: what they claim together, only where it does not follow.
    Raises ValueError for parts that differ in axes or widths, or have no position in common.
    """

    cite = """@inproceedings{heo2024rotary,
  title={Rotary Position Embedding for Vision Transformer},
  author={Heo, Byeongho and Park, Song and Han, Dongyoon and Yun, Sangdoo},
  booktitle={ECCV}, year={2024}, note={arXiv:2403.13298}}"""
    examples = (
        Anew({"parts": lambda: [Learned(12, 24), RoPE(12)]}),
        Anew({"parts": lambda: [CausalNoPE(0.5), RoPE(12)]}),
        Anew({"parts": lambda: [CausalNoPE(), Shaw(12, 4, values=False)]}),
        Anew({"parts": lambda: [RoPE(12), Shaw(12, 4)], "translation": lambda: "expected"}),
        Anew({"parts": lambda: [Sinusoid(12), Random(12, 24)], "translation": lambda: "expected"}),
    )

    parts: Iterable[Any]

    def __init__(self, parts: Sequence[Scheme], *, translation: Translation | None = None) -> None:
        super().__init__()
        composing.refuse_no_schemes("Sum", parts)
        rows = [part.out_dim for part in parts if "embed" in part.claims.sites]
        composing.alike("Sum", "rows", rows)
        composing.alike("Sum", "heads", [part.head_width for part in parts])
        translation = composing.translation_of(parts, translation)
        even = len(rows) < 2 or translation == "exact"  # a sum of even rows has none, but for one that moves along
        isometric = even and all(part.claims.isometric for part in parts)
        self.parts = nn.ModuleList(parts)
        self.claims = composing.joined("Sum", parts, translation=translation, isometric=isometric)
        composing.pass_on(self, {f"parts.{place}": part for place, part in enumerate(parts)})

    def reset_parameters(self) -> None:
        """Draw the state of every part anew (also after building on the meta device)."""
        composing.reset(self.parts)

    def _at(self, site: str, values: Any) -> list[tuple[Any, Any]]:
        """The parts that act at a site, each with its own of the values, which nobody else needs to have."""
        if site not in self.claims.sites:
            return []
        each = getattr(values, "parts", values)  # what ``relate`` made
        return [(part, value) for part, value in zip(self.parts, each, strict=True) if site in part.claims.sites]

    @property
    def head_width(self) -> int | None:
        return next((part.head_width for part in self.parts if part.head_width is not None), None)

    @property
    def out_dim(self) -> int:
        rows = self._at("embed", self.parts)
        return rows[0][0].out_dim if rows else super().out_dim

    def prepare(self, pos: Positions) -> tuple[Any, ...]:
        return tuple(part.prepare(pos) for part in self.parts)  # each refuses what it cannot take

    def relate(self, where_q: Any, where_k: Any) -> Any:
        return composing.together(part.relate(q, k) for part, q, k in zip(self.parts, where_q, where_k, strict=True))

    def embed(self, where: Any) -> Tensor:
        rows = [part.embed(w) for part, w in self._at("embed", where)]
        return reduce(torch.add, rows) if rows else super().embed(where)

    def transform(self, x: Tensor, where: Any, site: Literal["q", "k", "v", "o"]) -> Tensor:
        for part, w in self._at(site, where)[:: -1 if site == "o" else 1]:
            x = part.transform(x, w, site)
        return x

    def rerotate(self, x: Tensor, where_from: Any, where_to: Any, site: Literal["k", "v"] = "k") -> Tensor:
        acting = self._at(site, zip(where_from, where_to, strict=True))
        if len(acting) > 1:  # they need not commute
            return super().rerotate(x, where_from, where_to, site)
        return acting[0][0].rerotate(x, *acting[0][1], site) if acting else x

    def keep(self, x: Tensor, where: Any) -> Tensor | None:
        return folded(composing.refuse_two_kept, [part.keep(x, w) for part, w in self._at("bias", where)])

    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Any, seen: Tensor | None) -> Tensor | None:
        return folded(torch.add, [part.bias(q, k, kept, p, seen) for part, p in self._at("bias", pair)])

    def value_bias(self, weights: Tensor, pair: Any) -> Tensor | None:
        return folded(torch.add, [part.value_bias(weights, p) for part, p in self._at("value_bias", pair)])

    def mask(self, pair: Any) -> Tensor | None:
        return folded(torch.logical_and, [part.mask(p) for part, p in self._at("mask", pair)])

    def mix(self, x: Tensor, where: Any) -> Tensor:
        return reduce(lambda y, acting: acting[0].mix(y, acting[1]), self._at("mix", where), x)

    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Any) -> Callable[..., Tensor] | None:
        acting = [(a, p) for a, p in zip(self.parts, pair.parts, strict=True) if a.claims.sites & {"bias", "mask"}]
        mods = [part.score_mod(q, kept, p) for part, p in acting]
        if not mods or None in mods:
            return None
        return lambda score, b, h, i, j: reduce(lambda s, mod: mod(s, b, h, i, j), mods, score)

    def define_rows(self, p: Tensor) -> Tensor:
        return sum((part.define_rows(p) for part, _ in self._at("embed", self.parts)), torch.zeros(()))

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: Head) -> Tensor:
        for part, _ in self._at(site, self.parts)[:: -1 if site == "o" else 1]:
            x = part.define_transform(x, p, site, head)
        return x

    def define_bias(self, at: At) -> Tensor:
        return sum((part.define_bias(at) for part, _ in self._at("bias", self.parts)), torch.zeros(()))

    def define_value_bias(self, at: At) -> Tensor:
        return sum((part.define_value_bias(at) for part, _ in self._at("value_bias", self.parts)), torch.zeros(()))

    def define_mask(self, at: At) -> bool:
        return all(part.define_mask(at) for part, _ in self._at("mask", self.parts))

    def define_mix(self, x: Tensor, pos: Positions, n: int) -> Tensor:
        for part, _ in self._at("mix", self.parts):
            x = torch.stack([part.define_mix(x, pos, m) for m in range(len(x))])
        return x[n]
