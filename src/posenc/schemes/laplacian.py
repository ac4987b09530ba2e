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

from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from posenc.kernels.linear_rows import LinearRows


class Laplacian(LinearRows):
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
        >>> from posenc import Laplacian, graph
        >>> scheme = Laplacian(dim=12, axes=2)
        >>> path = [(0, 1), (1, 2), (2, 3), (3, 4)]
        >>> scheme.embed(scheme.prepare(graph(path, axes=2))).shape
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
    graph_view = "eigenvectors"
    conventions = ("signs",)

    def __init__(
        self,
        dim: int,
        axes: int,
        *,
        signs: Literal["given", "absolute"] = "given",
        generator: torch.Generator | None = None,
    ) -> None:
        if dim < 1 or axes < 1:
            raise ValueError(f"Laplacian maps axes >= 1 eigenvectors to dim >= 1; got dim={dim}, axes={axes}.")
        if signs not in ("given", "absolute"):
            raise ValueError(f"Laplacian reads eigenvectors as 'given' or 'absolute'; got signs={signs!r}.")
        super().__init__(dim, axes, generator)
        self.signs: Literal["given", "absolute"] = signs

    @override
    def entries(self, coords: Tensor) -> Tensor:
        """Return the entries of the eigenvectors, or their absolute values."""
        return coords.abs() if self.signs == "absolute" else coords
