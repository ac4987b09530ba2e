"""Laplacian eigenvectors: a linear map of a graph node's entries in the smoothest eigenvectors of the graph Laplacian.

    e_n = C v_n + c,   v_n = (v_1n, .., v_Pn),   C in R^{d x P}, c in R^d trained

``v_1, .., v_P`` are the eigenvectors of ``I - D^(-1/2) A D^(-1/2)`` with the smallest non-zero eigenvalues.
``posenc.graph(edges, axes=P)`` computes them as positions. The scheme reads these P coordinates and not the graph.

The sign of an eigenvector is arbitrary, so a node's embedding should not depend on it:
- ``signs="given"`` uses the eigenvectors unchanged. As in the paper, training flips their signs at random
  (``posenc.position_augmentation.flipped``), so that the network learns to ignore them.
- ``signs="absolute"`` uses ``|v_pn|``, which no flip changes. It cannot distinguish two nodes whose entries differ in
  sign alone.
- The scheme ``SignNet`` is invariant to flips and distinguishes such nodes.

Source: Dwivedi and Bresson 2020, arXiv 2012.09699 (the map); Dwivedi et al. 2020, arXiv 2003.00982 (the flips, and the
absolute value as an alternative).

Conventions: ``C`` and ``c`` start as torch's linear layers do.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Entries(NamedTuple):
    """The entries ``v`` that are mapped, ``(.., N, P)``, and ``placed`` as in Positions."""

    v: Tensor
    placed: Tensor | None


class Laplacian(Scheme):
    """Laplacian positional encoding of graph nodes: a trained linear map of their entries in P eigenvectors.

        e_n = C v_n + c,   or with signs="absolute"   e_n = C |v_n| + c

    Args:
        dim: Width d of the embedding.
        axes: Number P of eigenvectors, which is the number of axes of the positions.
        signs: "given" for the entries as they are, "absolute" for their absolute values. Default: "given".
        generator: Random generator of the initial ``C`` and ``c``. Default: torch's global generator.

    Raises:
        ValueError: If ``dim`` or ``axes`` is less than 1, or ``signs`` is unknown.

    Example:
        >>> import torch
        >>> from posenc import Laplacian, graph
        >>> scheme = Laplacian(dim=12, axes=2)
        >>> ring = torch.tensor([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])
        >>> scheme.embed(scheme.prepare(graph(ring, axes=2))).shape
        torch.Size([5, 12])

    References:
        Dwivedi and Bresson 2020, arXiv 2012.09699.
        Dwivedi et al. 2020, arXiv 2003.00982.
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
        """Redraw ``C`` and ``c``; needed after construction on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        bound = 1 / math.sqrt(self.weight.shape[1])
        with torch.no_grad():
            for parameter in (self.weight, self.shift):
                parameter.uniform_(-bound, bound, generator=generator)

    @property
    @override
    def out_dim(self) -> int:
        return len(self.shift)

    @override
    def prepare(self, pos: Positions) -> Entries:
        v = self._take(pos).coords.to(pos.table_dtype)
        return Entries(v.abs() if self.signs == "absolute" else v, pos.placed)

    @override
    def embed(self, where: Entries) -> Tensor:
        rows = functional.linear(where.v.to(self.weight.dtype), self.weight, self.shift)
        return rows if where.placed is None else rows * where.placed[..., None]

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        v = [x.abs() if self.signs == "absolute" else x for x in p]
        return torch.stack([
            sum((self.weight[i, a] * x for a, x in enumerate(v)), self.shift[i]) for i in range(self.out_dim)
        ])  # fmt: skip
