"""Rows side by side: a token is embedded by several schemes at once, each in channels of its own.

    e_p = [e^1_p | e^2_p | ..],    e_p . e_r = e^1_p . e^1_r + e^2_p . e^2_r + ..

so inner products add, and what all parts claim of theirs holds of the whole: rows that are each relative stay relative,
where a sum of rows would have a product. The model's projection then weighs the parts.

Source: concatenation is the other choice beside the addition of Vaswani et al. 2017, arXiv 1706.03762, section 3.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from posenc.kernels.composing import Anew, Translation, joined, pass_on, refuse_no_schemes, reset
from posenc.positions import Positions
from posenc.scheme import Scheme
from posenc.schemes.learned import Learned
from posenc.schemes.random import Random
from posenc.schemes.sinusoid import Sinusoid


class Concat(Scheme):
    """``e_p = [e^1_p | e^2_p | ..]`` of schemes that make rows and do nothing else, on the same positions.

    parts: the schemes, in the order of their channels.
    """

    cite = """@inproceedings{vaswani2017attention,
  title={Attention Is All You Need},
  author={Vaswani, Ashish and Shazeer, Noam and Parmar, Niki and Uszkoreit, Jakob and Jones, Llion and Gomez, Aidan N
          and Kaiser, Lukasz and Polosukhin, Illia},
  booktitle={NeurIPS}, year={2017}, note={arXiv:1706.03762}}"""
    examples = (
        Anew({"parts": lambda: [Sinusoid(8), Sinusoid(4, base=30.0), Sinusoid(2, base=7.0)]}),
        Anew({"parts": lambda: [Sinusoid(8), Random(4, 24)]}),
        Anew({"parts": lambda: [Learned(5, 24), Sinusoid(8)]}),
    )

    parts: Iterable[Any]

    def __init__(self, parts: Sequence[Scheme]) -> None:
        super().__init__()
        refuse_no_schemes("Concat", parts)
        for part in parts:
            if part.claims.sites != {"embed"}:
                raise ValueError(
                    f"Concat puts rows side by side, and {type(part).__name__} acts at "
                    f"{', '.join(sorted(part.claims.sites)) or 'no site'}. Take it together with others in a Sum."
                )
        claimed = {part.claims.translation for part in parts}
        translation: Translation = "none" if "none" in claimed else "expected" if "expected" in claimed else "exact"
        self.parts = nn.ModuleList(parts)
        isometric = all(part.claims.isometric for part in parts)
        self.claims = joined("Concat", parts, translation=translation, isometric=isometric)
        pass_on(self, {f"parts.{place}": part for place, part in enumerate(parts)})

    def reset_parameters(self) -> None:
        """Draw the state of every part anew (also after building on the meta device)."""
        reset(self.parts)

    @property
    def out_dim(self) -> int:
        return sum(part.out_dim for part in self.parts)

    def prepare(self, pos: Positions) -> tuple[Any, ...]:
        return tuple(part.prepare(pos) for part in self.parts)  # each refuses what it cannot take

    def embed(self, where: tuple[Any, ...]) -> Tensor:
        return torch.cat([part.embed(w) for part, w in zip(self.parts, where, strict=True)], -1)

    def define_rows(self, p: Tensor) -> Tensor:
        return torch.cat([part.define_rows(p) for part in self.parts], -1)
