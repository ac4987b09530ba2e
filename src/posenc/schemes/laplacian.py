"""Laplacian eigenvectors: a node of a graph is embedded by its entries in the smoothest of them.

    e_n = C v_n + c,   v_n = (v_1n, .., v_Pn),   C in R^{d x P}, c in R^d trained

where ``v_1, .., v_P`` are the eigenvectors of ``I - D^(-1/2) A D^(-1/2)`` with the smallest non-zero eigenvalues. They
are the positions that ``graph(edges, axes=P)`` makes; the scheme itself reads P coordinates and no graph.

An eigenvector means the same as its negative, and a node's row should not depend on which of them a solver returned.
signs="given" reads them as they come, and a network learns not to care where training flips them at random
(``posenc.randomised.flipped``), as the paper does; signs="absolute" reads ``|v_pn|``, which no flip changes, and which
cannot tell a node from one on the other side of a cut. What no flip changes and can is another scheme, ``SignNet``.

Source: Dwivedi and Bresson 2020, arXiv 2012.09699 (the map); Dwivedi et al. 2020, arXiv 2003.00982 (the flips, and the
absolute value among the alternatives). ``C`` and ``c`` start as torch's linear layers do.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Entries(NamedTuple):
    """``v``: what is mapped, ``(.., N, P)``; ``placed`` as in Positions."""

    v: Tensor
    placed: Tensor | None


class Laplacian(Scheme):
    """``e_n = C v_n + c``, or ``C |v_n| + c``, for nodes with P coordinates.

    dim: width of a row. axes: P, the number of eigenvectors. signs: whether they are read as "given" or "absolute".
    generator: of the first ``C`` and ``c``.
    """

    cite = """@article{dwivedi2020generalization,
  title={A Generalization of Transformer Networks to Graphs},
  author={Dwivedi, Vijay Prakash and Bresson, Xavier},
  journal={arXiv:2012.09699}, year={2020}}"""
    examples = ({"dim": 12, "axes": 2}, {"dim": 12, "axes": 3}, {"dim": 12, "axes": 2, "signs": "absolute"})
    conventions = ("signs",)

    weight: nn.Parameter
    shift: nn.Parameter

    def __init__(
        self,
        dim: int,
        axes: int,
        *,
        signs: Literal["given", "absolute"] = "given",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if dim < 1 or axes < 1:
            raise ValueError(f"Laplacian maps axes >= 1 eigenvectors to dim >= 1; got dim={dim}, axes={axes}.")
        if signs not in ("given", "absolute"):
            raise ValueError(f"Laplacian reads eigenvectors as 'given' or 'absolute'; got signs={signs!r}.")
        self.signs: Literal["given", "absolute"] = signs
        self.weight, self.shift = nn.Parameter(torch.empty(dim, axes)), nn.Parameter(torch.empty(dim))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="none",
            isometric=False,
            learned=True,
            range=None,
            axes=axes,
            sites=frozenset({"embed"}),
            sharing="model",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw ``C`` and ``c`` anew (also after building on the meta device)."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        with torch.no_grad():
            for parameter in (self.weight, self.shift):
                parameter.uniform_(-bound, bound, generator=generator)

    @property
    def out_dim(self) -> int:
        return len(self.shift)

    def prepare(self, pos: Positions) -> Entries:
        v = self._take(pos).coords.to(pos.table_dtype)
        return Entries(v.abs() if self.signs == "absolute" else v, pos.placed)

    def embed(self, where: Entries) -> Tensor:
        rows = functional.linear(where.v.to(self.weight.dtype), self.weight, self.shift)
        return rows if where.placed is None else rows * where.placed[..., None]

    def define_embed(self, p: Tensor) -> Tensor:
        v = [x.abs() if self.signs == "absolute" else x for x in p]
        return torch.stack([
            sum((self.weight[i, a] * x for a, x in enumerate(v)), self.shift[i]) for i in range(self.out_dim)
        ])  # fmt: skip
