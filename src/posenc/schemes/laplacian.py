"""Laplacian eigenvectors: a linear map of a graph node's entries in the smoothest eigenvectors of the graph Laplacian.

    e_n = C v_n + c,   v_n = (v_1n, .., v_Pn),   C in R^{d x P}, c in R^d trained

``v_1, .., v_P`` are the eigenvectors of ``I - D^(-1/2) A D^(-1/2)`` with the smallest non-zero eigenvalues.
``posenc.graph(edges, axes=P)`` computes them as positions. The scheme reads these P coordinates and not the graph.

The sign of an eigenvector is arbitrary, so a node's embedding should not depend on it:
- ``signs="given"`` uses the eigenvectors unchanged.
- ``signs="random"`` multiplies each eigenvector by a random sign at every ``prepare`` in training mode, so that the
  network learns to ignore signs, and leaves it unchanged in evaluation mode. As in the authors' code (github
  graphdeeplearning/benchmarking-gnns), the graphs of a batch share the signs of a call; separate draws for each graph
  are those of ``posenc.position_augmentation.flipped``.
- ``signs="absolute"`` uses ``|v_pn|``, which no flip changes. It cannot distinguish two nodes whose entries differ in
  sign alone.
- The scheme ``SignNet`` is invariant to flips and distinguishes such nodes.

Source: Dwivedi and Bresson 2020, arXiv 2012.09699 (the map); Dwivedi et al. 2020, arXiv 2003.00982 (the flips, and the
absolute value as an alternative).

Conventions: ``C`` and ``c`` start as torch's linear layers do.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

import torch
from torch import Tensor
from typing_extensions import override

from posenc.kernels.linear_rows import Entries, LinearRows
from posenc.positions import Positions

Signs = Literal["given", "absolute", "random"]
FIRST_DRAW = 1
"""Seed of the first random signs. The signs of the first two calls differ."""
NO_GRAPH = {"compiling.it_compiles_whole_at_changing_lengths": "it draws from a generator, which no graph holds"}
"""Contract check that random signs fail (see ``Scheme.faults``)."""


class Laplacian(LinearRows):
    """Laplacian positional encoding of graph nodes: a trained linear map of their entries in P eigenvectors.

        e_n = C v_n + c,   with signs="absolute"   e_n = C |v_n| + c,   with signs="random"   e_n = C (s v_n) + c

    With ``signs="random"`` in training mode:

    - ``prepare`` draws the signs. All graphs of its batch share them, and two ``embed`` of its result are equal.
    - The buffer ``drawn`` counts the calls of ``prepare``, and is the only seed of the signs. ``torch.manual_seed`` and
      ``generator`` do not change them, so two new schemes draw the same sequence. To repeat signs, set ``drawn`` back;
      for other signs, fill it with another number: ``scheme.drawn.fill_(1000)``.

    Args:
        dim: Width d of the embedding.
        axes: Number P of eigenvectors, which is the number of axes of the positions.
        signs: "given" for the entries as they are, "absolute" for their absolute values, "random" for a random sign s_p
            of each eigenvector at every ``prepare`` in training mode. Default: "given".
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
    examples = (
        {"dim": 12, "axes": 2},
        {"dim": 12, "axes": 3},
        {"dim": 12, "axes": 2, "signs": "absolute"},
        {"dim": 12, "axes": 3, "signs": "random"},
    )
    graph_view = "eigenvectors"
    conventions = ("signs",)

    drawn: Tensor

    def __init__(
        self, dim: int, axes: int, *, signs: Signs = "given", generator: torch.Generator | None = None
    ) -> None:
        if dim < 1 or axes < 1:
            raise ValueError(f"Laplacian maps axes >= 1 eigenvectors to dim >= 1; got dim={dim}, axes={axes}.")
        if signs not in get_args(Signs):
            raise ValueError(f"Laplacian reads signs as 'given', 'absolute' or 'random'; got signs={signs!r}.")
        super().__init__(dim, axes, generator)
        self.signs: Signs = signs
        if signs == "random":
            self.register_buffer("drawn", torch.zeros((), dtype=torch.int64))
            self.draws, self.faults = ("drawn",), NO_GRAPH
            self.claims = dataclasses.replace(self.claims, cacheable=False)  # each call has other signs

    @override
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw ``C`` and ``c``, and restart the random signs; needed after construction on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        super().reset_parameters(generator)
        if "drawn" in self._buffers:
            self.drawn.zero_()

    @override
    def prepare(self, pos: Positions) -> Entries:
        where = super().prepare(pos)
        if self.signs == "random" and self.training:
            self.drawn.add_(1)
        return where

    @override
    def entries(self, coords: Tensor) -> Tensor:
        """Return the entries of the eigenvectors, their absolute values, or the entries with the signs of this call."""
        if self.signs == "random" and self.training:
            draw = torch.Generator().manual_seed(FIRST_DRAW + int(self.drawn))
            ones = torch.randint(2, (coords.shape[-1],), generator=draw, device="cpu")
            return coords * (2 * ones - 1).to(coords)
        return coords.abs() if self.signs == "absolute" else coords
