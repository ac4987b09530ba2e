"""RWSE: a linear map of the probabilities that a random walk from a graph node is back after 1, 2, .., K steps.

    e_n = C p_n + c,   p_n = [(M)_nn, (M^2)_nn, .., (M^K)_nn],   M = D^(-1) A,   C in R^{d x K}, c in R^d trained

``posenc.graph(edges, view="walks", axes=K)`` computes ``p_n`` as positions. They depend on no choice of a sign or of a
basis, and two nodes that a symmetry of the graph exchanges have the same.

Source: Dwivedi et al. 2022, arXiv 2110.07875 (``p_n``, eq. 13, with the linear map of section 3).

Conventions:
- A node without an edge has the probabilities 0.
- Weights count: a walk takes an edge by its share in the weights of the node's edges. PyTorch Geometric's
  ``AddRandomWalkPE`` divides by the sum of the weights and leaves the weight itself out, so its rows need not sum to 1.
- ``C`` and ``c`` start as torch's linear layers do.
"""

from __future__ import annotations

import torch

from posenc.kernels.linear_rows import LinearRows


class RWSE(LinearRows):
    """Random-walk structural encoding of graph nodes: a trained linear map of return probabilities.

        e_n = C p_n + c,   p_n = [(M)_nn, (M^2)_nn, .., (M^K)_nn],   M = D^(-1) A

    Args:
        dim: Width d of the embedding.
        axes: Number K of steps of the walk, which is the number of axes of the positions. Default: 16, as that of
            ``posenc.graph(.., view="walks")``.
        generator: Random generator of the initial ``C`` and ``c``. Default: torch's global generator.

    Raises:
        ValueError: If ``dim`` or ``axes`` is less than 1.

    Example:
        >>> from posenc import RWSE, graphs
        >>> pos = graphs([[(0, 1), (1, 2), (2, 0)], [(0, 1)]], view="walks", axes=4)
        >>> scheme = RWSE(12, axes=4)
        >>> scheme.embed(scheme.prepare(pos)).shape
        torch.Size([2, 3, 12])

    References:
        Dwivedi, Luu, Laurent, Bengio and Bresson 2022, "Graph Neural Networks with Learnable Structural and Positional
        Representations", arXiv 2110.07875.
    """

    cite = """@inproceedings{dwivedi2022graph,
  title={Graph Neural Networks with Learnable Structural and Positional Representations},
  author={Dwivedi, Vijay Prakash and Luu, Anh Tuan and Laurent, Thomas and Bengio, Yoshua and Bresson, Xavier},
  booktitle={ICLR}, year={2022}, note={arXiv:2110.07875}}"""
    examples = ({"dim": 12, "axes": 2}, {"dim": 12, "axes": 3})
    graph_view = "walks"

    def __init__(self, dim: int, axes: int = 16, *, generator: torch.Generator | None = None) -> None:
        if dim < 1 or axes < 1:
            raise ValueError(f"RWSE maps axes >= 1 return probabilities to dim >= 1; got dim={dim}, axes={axes}.")
        super().__init__(dim, axes, generator)
