"""Concat: the embeddings of several schemes, concatenated along the channels.

    e_p = [e^1_p | e^2_p | ..],    e_p . e_r = e^1_p . e^1_r + e^2_p . e^2_r + ..

Inner products of the parts add. If every part is translation invariant, so is the concatenation. A sum of embeddings
has cross terms between its parts and is not. The projection of the model weighs the parts.

Source: the alternative to the addition of Vaswani et al. 2017, arXiv 1706.03762, section 3.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.kernels.composition import (
    FreshArguments,
    Translation,
    copy_declarations,
    joint_claims,
    refuse_no_schemes,
    reset,
)
from posenc.positions import Positions
from posenc.scheme import Scheme
from posenc.schemes.learned import Learned
from posenc.schemes.random import Random
from posenc.schemes.sinusoid import Sinusoid


class Concat(Scheme):
    """Concatenation of the embeddings of several schemes at the same positions.

        e_p = [e^1_p | e^2_p | ..]

    Args:
        parts: Schemes whose only site is ``embed``, in the order of their channels. The embedding is as wide as all of
            them together.

    Raises:
        ValueError: If ``parts`` is empty, if a part acts at another site than ``embed``, or if no position suits all
            parts.

    Example:
        >>> from posenc import Concat, Learned, Sinusoid, sequence
        >>> scheme = Concat([Sinusoid(8), Learned(4, max_len=10)])
        >>> scheme.embed(scheme.prepare(sequence(10))).shape
        torch.Size([10, 12])

    References:
        Vaswani et al. 2017, arXiv 1706.03762, section 3.5.
    """

    cite = """@inproceedings{vaswani2017attention,
  title={Attention Is All You Need},
  author={Vaswani, Ashish and Shazeer, Noam and Parmar, Niki and Uszkoreit, Jakob and Jones, Llion and Gomez, Aidan N
          and Kaiser, Lukasz and Polosukhin, Illia},
  booktitle={NeurIPS}, year={2017}, note={arXiv:1706.03762}}"""
    shown = "Concat([Sinusoid(32), Sinusoid(32, base=100.0)])"
    examples = (
        FreshArguments({"parts": lambda: [Sinusoid(8), Sinusoid(4, base=30.0), Sinusoid(2, base=7.0)]}),
        FreshArguments({"parts": lambda: [Sinusoid(8), Random(4, 24)]}),
        FreshArguments({"parts": lambda: [Learned(5, 24), Sinusoid(8)]}),
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
        self.claims = joint_claims("Concat", parts, translation=translation, isometric=isometric)
        copy_declarations(self, {f"parts.{place}": part for place, part in enumerate(parts)})

    def reset_parameters(self) -> None:
        """Redraw the state of every part; needed after construction on the meta device."""
        reset(self.parts)

    @property
    @override
    def out_dim(self) -> int:
        return sum(part.out_dim for part in self.parts)

    @override
    def prepare(self, pos: Positions) -> tuple[Any, ...]:
        return tuple(part.prepare(pos) for part in self.parts)  # each part refuses positions that it cannot take

    @override
    def embed(self, where: tuple[Any, ...]) -> Tensor:
        return torch.cat([part.embed(w) for part, w in zip(self.parts, where, strict=True)], -1)

    @override
    def define_rows(self, p: Tensor) -> Tensor:
        return torch.cat([part.define_rows(p) for part in self.parts], -1)
