"""SPE: an embedding of graph nodes by Laplacian eigenvectors that depends on neither their signs nor their basis.

    K_m = V diag(phi_m(lambda_1), .., phi_m(lambda_P)) V^T,   m = 1 .. M
    e_n = rho(K_1, .., K_M)_n = C_2 relu(C_1 [k_nn, mean_j relu(A k_nj + a)] + c_1) + c_2,   k_nj = (K_1 .. K_M)_nj
    phi(lambda) = W_2 relu(w_1 lambda + b_1) + b_2   in R^M

Eigenvectors of equal eigenvalues get equal factors, so a rotation among them changes no ``K_m``. Eigenvalues that
differ little get factors that differ little, so the embedding is stable where a basis is almost arbitrary.

Source: Huang et al. 2024, arXiv 2310.02579: ``SPE(V, lambda) = rho(V diag(phi_1(lambda)) V^T, .., V diag(phi_M(lambda))
V^T)`` with permutation-equivariant phi and rho.

Conventions:
- ``V`` has the coordinates of ``posenc.graph``, unit root mean square over the nodes of a component: sqrt(n) times the
  paper's unit vectors. Means over nodes replace the sums, so sizes do not depend on the number of nodes.
- phi is a network of the single eigenvalue, rho one of rows. The authors' code (github Graph-COM/SPE) has a GIN in rho,
  which reads the edges.
- A pair of nodes in different components has no ``k``, and means are over the nodes of the component. So a graph is
  embedded in a disjoint union as alone.
- An eigenvalue has to have all of its eigenvectors among the P axes: ``posenc.graphs(.., ties="whole")``.
- Weights start as in torch's linear layers. Memory grows as N^2 times ``hidden``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from posenc.graph_batch import GraphBatch
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Nodes(NamedTuple):
    """Eigenvector entries ``v`` and eigenvalues ``(.., N, P)``, and the nodes of one component ``(.., N, N)``."""

    v: Tensor
    values: Tensor
    together: Tensor


class SPE(Scheme):
    """Stable and expressive positional encoding: a network on ``V diag(phi(lambda)) V^T``, the same in every basis.

        e_n = rho(V diag(phi_1(lambda)) V^T, .., V diag(phi_M(lambda)) V^T)_n

    Args:
        dim: Width of a row.
        axes: Number P of eigenvectors, the coordinates of a node.
        features: Number M of functions of the eigenvalues. Default: 8.
        hidden: Width of the hidden layers. Default: 16.
        generator: Random generator of the initial weights. Default: torch's global generator.

    Raises:
        ValueError: If ``dim``, ``axes``, ``features`` or ``hidden`` is less than 1.

    Example:
        >>> from posenc import SPE, graphs
        >>> ring = [(0, 1), (1, 2), (2, 3), (3, 0)]
        >>> pos = graphs([ring, [(0, 1)]], axes=3, ties="whole")
        >>> scheme = SPE(12, axes=3)
        >>> scheme.embed(scheme.prepare(pos)).shape
        torch.Size([2, 4, 12])

    References:
        Huang, Lu, Robinson, Yang, Zhang, Jegelka and Li 2024, "On the Stability of Expressive Positional Encodings for
        Graphs", arXiv 2310.02579.
    """

    cite = """@inproceedings{huang2024stability,
  title={On the Stability of Expressive Positional Encodings for Graphs},
  author={Huang, Yinan and Lu, William and Robinson, Joshua and Yang, Yu and Zhang, Muhan and Jegelka, Stefanie and
          Li, Pan},
  booktitle={ICLR}, year={2024}, note={arXiv:2310.02579}}"""
    examples = ({"dim": 12, "axes": 2}, {"dim": 12, "axes": 3, "features": 3, "hidden": 8})
    graph_view = "eigenvectors"
    graph_reads = frozenset({"eigenvalues"})

    def __init__(
        self, dim: int, axes: int, *, features: int = 8, hidden: int = 16, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        if min(dim, axes, features, hidden) < 1:
            raise ValueError(
                "SPE maps axes >= 1 eigenvectors by features >= 1 functions and hidden >= 1 channels to dim >= 1; got "
                f"dim={dim}, axes={axes}, features={features}, hidden={hidden}."
            )
        h, m = hidden, features
        shapes = {"w_1": (h, 1), "b_1": (h,), "W_2": (m, h), "b_2": (m,), "A": (h, m), "a": (h,),
                  "C_1": (h, m + h), "c_1": (h,), "C_2": (dim, h), "c_2": (dim,)}  # fmt: skip
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape)))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="none",
            isometric=False,
            learned=True,
            range=None,
            axes=axes,
            sites=frozenset({"embed"}),
            sharing="model",
            cacheable=False,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the weights; needed after construction on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        with torch.no_grad():
            weights = list(self.parameters())
            for weight, shift in zip(weights[::2], weights[1::2], strict=True):
                bound = 1 / math.sqrt(weight.shape[1])
                for parameter in (weight, shift):
                    parameter.uniform_(-bound, bound, generator=generator)

    @property
    @override
    def out_dim(self) -> int:
        return len(self.get_parameter("c_2"))

    @override
    def prepare(self, pos: Positions) -> Nodes:
        self._take(pos)
        assert pos.graph is not None  # `_take` has checked it
        assert pos.graph.eigenvalues is not None
        assert pos.graph.component is not None
        component = pos.graph.component
        together = component[..., :, None] == component[..., None, :]
        if pos.placed is not None:
            together = together & pos.placed[..., :, None] & pos.placed[..., None, :]
        return Nodes(pos.coords.to(pos.table_dtype), pos.graph.eigenvalues.to(pos.table_dtype), together)

    @override
    def embed(self, where: Nodes) -> Tensor:
        # At least float32, whatever dtype the weights have: bfloat16 would merge nearby entries.
        kind = torch.promote_types(where.v.dtype, self.get_parameter("A").dtype)
        w_1, b_1, W_2, b_2, A, a, C_1, c_1, C_2, c_2 = (w.to(kind) for w in self.parameters())
        v, together = where.v.to(kind), where.together[..., None].to(kind)
        phi = functional.linear(functional.linear(where.values.to(kind)[..., None], w_1, b_1).relu(), W_2, b_2)
        k = torch.einsum("...np,...npm,...jp->...njm", v, phi, v)  # (.., N, N, M)
        count = together.sum(-2).clamp(min=1)
        mean = (functional.linear(k, A, a).relu() * together).sum(-2) / count
        own = k.diagonal(dim1=-3, dim2=-2).transpose(-1, -2)
        hidden = functional.linear(torch.cat([own, mean], -1), C_1, c_1).relu()
        rows = functional.linear(hidden, C_2, c_2) * together.diagonal(dim1=-3, dim2=-2).transpose(-1, -2)
        return rows.to(self.get_parameter("c_2").dtype)

    @override
    def define_node_rows(self, p: Tensor, graph: GraphBatch) -> Tensor:
        w_1, b_1, W_2, b_2, A, a, C_1, c_1, C_2, c_2 = self.parameters()
        assert graph.eigenvalues is not None
        assert graph.component is not None
        rows = []
        for n, v_n in enumerate(p):
            phi = [W_2 @ torch.clamp(w_1[:, 0] * value + b_1, min=0) + b_2 for value in graph.eigenvalues[n]]
            k = [sum(v_n[i] * phi_i * v_j[i] for i, phi_i in enumerate(phi)) for v_j in p]
            among = [j for j in range(len(p)) if graph.component[j] == graph.component[n]]
            mean = torch.stack([torch.clamp(A @ torch.as_tensor(k[j]) + a, min=0) for j in among]).mean(0)
            rows.append(C_2 @ torch.clamp(C_1 @ torch.cat([torch.as_tensor(k[n]), mean]) + c_1, min=0) + c_2)
        return torch.stack(rows) if rows else p.new_zeros(0, self.out_dim)
