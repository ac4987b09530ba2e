"""SignNet: an embedding of graph nodes by Laplacian eigenvectors that no sign flip of an eigenvector changes.

    e_n = rho([phi(v_1) + phi(-v_1), .., phi(v_P) + phi(-v_P)]_n)
    phi(v)_n = relu(A_2 x_n + B_2 mean_m x_m + b_2),   x_n = relu(A_1 v_n + B_1 mean_m v_m + b_1),   m in n's component
    rho(y) = C_2 relu(C_1 y + c_1) + c_2

All eigenvectors share one phi. It reads each eigenvector as a whole: every node together with the mean over nodes. This
separates a node from its counterpart across a cut, whereas a function of the single entry can depend on ``|v_n|`` only.
No such function separates two sides that a symmetry of the graph exchanges.

Source: Lim et al. 2022, arXiv 2202.13013: ``f = rho([phi(v_i) + phi(-v_i)]_i)``, universal among sign-invariant
functions.

Conventions:
- This phi is the equivariant DeepSets of the authors' code (github cptq/SignNet-BasisNet), with its last linear layer
  merged into ``C_1``.
- Means are over the nodes with a position of one component of the graph, each of which has eigenvectors with signs of
  their own. Positions without a graph are one component; ``posenc.graph`` makes them with one. A row needs all nodes of
  its component.
- Equal eigenvalues allow any rotation of their eigenvectors, to which this scheme is not invariant.
- Weights start as in torch's linear layers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from posenc.graph_batch import GraphBatch
from posenc.kernels.component_means import component_means
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class SignNet(Scheme):
    """Network on the P eigenvector entries of a node, invariant to ``v_p -> -v_p`` for each eigenvector.

        e_n = rho([phi(v_1) + phi(-v_1), .., phi(v_P) + phi(-v_P)]_n)

    Args:
        dim: Width of a row.
        axes: Number P of eigenvectors, the coordinates of a node.
        hidden: Width of every hidden layer.
        generator: Random generator for the initial weights; torch's default generator if None.

    Raises:
        ValueError: If ``dim``, ``axes`` or ``hidden`` is below 1.

    Example:
        >>> from posenc import SignNet, graph
        >>> path = [(0, 1), (1, 2), (2, 3), (3, 4)]
        >>> scheme = SignNet(12, axes=2)
        >>> scheme.embed(scheme.prepare(graph(path, axes=2))).shape
        torch.Size([5, 12])

    References:
        Lim, Robinson, Zhao, Smidt, Sra, Maron and Jegelka, 2022, "Sign and Basis Invariant Networks for Spectral Graph
        Representation Learning", arXiv 2202.13013.
    """

    cite = """@inproceedings{lim2023sign,
  title={Sign and Basis Invariant Networks for Spectral Graph Representation Learning},
  author={Lim, Derek and Robinson, Joshua and Zhao, Lingxiao and Smidt, Tess and Sra, Suvrit and Maron, Haggai and
          Jegelka, Stefanie},
  booktitle={ICLR}, year={2023}, note={arXiv:2202.13013}}"""
    examples = ({"dim": 12, "axes": 2}, {"dim": 12, "axes": 3, "hidden": 8})
    graph_view = "eigenvectors"

    A_1: nn.Parameter
    B_1: nn.Parameter
    b_1: nn.Parameter
    A_2: nn.Parameter
    B_2: nn.Parameter
    b_2: nn.Parameter
    C_1: nn.Parameter
    c_1: nn.Parameter
    C_2: nn.Parameter
    c_2: nn.Parameter

    def __init__(self, dim: int, axes: int, *, hidden: int = 32, generator: torch.Generator | None = None) -> None:
        super().__init__()
        if min(dim, axes, hidden) < 1:
            raise ValueError(
                f"SignNet maps axes >= 1 eigenvectors through hidden >= 1 channels to dim >= 1; got dim={dim}, "
                f"axes={axes}, hidden={hidden}."
            )
        h = hidden
        shapes = {"A_1": (h, 1), "B_1": (h, 1), "b_1": (h,), "A_2": (h, h), "B_2": (h, h), "b_2": (h,),
                  "C_1": (h, axes * h), "c_1": (h,), "C_2": (dim, h), "c_2": (dim,)}  # fmt: skip
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

    @property
    def phi(self) -> tuple[tuple[Tensor, ...], ...]:
        """The two layers of phi, each (A, B, b)."""
        return (self.A_1, self.B_1, self.b_1), (self.A_2, self.B_2, self.b_2)

    @property
    def rho(self) -> tuple[tuple[Tensor, ...], ...]:
        """The two layers of rho, each (C, c)."""
        return (self.C_1, self.c_1), (self.C_2, self.c_2)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the initial weights again, also after the module was built on the meta device.

        Args:
            generator: Random generator; torch's default generator if None.
        """
        with torch.no_grad():
            for layer in (*self.phi, *self.rho):
                bound = 1 / math.sqrt(layer[0].shape[1])
                for parameter in layer:
                    parameter.uniform_(-bound, bound, generator=generator)

    @property
    @override
    def out_dim(self) -> int:
        return len(self.c_2)

    @override
    def prepare(self, pos: Positions) -> Positions:
        return self._take(pos)

    @override
    def embed(self, where: Positions) -> Tensor:
        # At least float32, whatever dtype the weights have: bfloat16 would merge nearby entries.
        v = where.coords.to(torch.promote_types(where.table_dtype, self.A_1.dtype))
        plus, minus = self._phi(torch.cat([v, -v], -1), where).chunk(2, -2)
        (C_1, c_1), (C_2, c_2) = ((w.to(v.dtype) for w in layer) for layer in self.rho)
        rows = functional.linear(functional.linear((plus + minus).flatten(-2), C_1, c_1).relu(), C_2, c_2)
        rows = rows if where.placed is None else rows * where.placed[..., None]
        return rows.to(self.C_2.dtype)

    def _phi(self, v: Tensor, where: Positions) -> Tensor:
        """Apply phi to each column of ``v (.., N, V)``; returns ``(.., N, V, hidden)``."""
        x = v[..., None]
        for layer in self.phi:
            A, B, b = (w.to(x.dtype) for w in layer)
            x = (functional.linear(x, A, b) + functional.linear(component_means(x, where), B)).relu()
        return x

    @override
    def define_rows(self, p: Tensor) -> Tensor:
        def phi(v: Tensor) -> list[Tensor]:
            x = list(v[:, None])
            for A, B, b in self.phi:
                mean = torch.stack(x).mean(0)
                x = [torch.clamp(A @ x_n + B @ mean + b, min=0) for x_n in x]
            return x

        (C_1, c_1), (C_2, c_2) = self.rho
        signs = [zip(phi(v), phi(-v), strict=True) for v in p.T]
        each = [torch.cat([plus + minus for plus, minus in of_node]) for of_node in zip(*signs, strict=True)]
        return torch.stack([C_2 @ torch.clamp(C_1 @ y + c_1, min=0) + c_2 for y in each])

    @override
    def define_node_rows(self, p: Tensor, graph: GraphBatch) -> Tensor:
        assert graph.component is not None
        rows = p.new_zeros(len(p), self.out_dim)
        for component in graph.component.unique():
            among = graph.component == component
            rows[among] = self.define_rows(p[among])
        return rows
