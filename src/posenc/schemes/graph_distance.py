"""Graph distance: the spatial encoding of Graphormer, a learned bias per head and shortest-path length of two nodes.

    s_ij = q_i . k_j + b_h[phi(v_i, v_j)] + c_h[type(v_i, v_j)]        (eq. 6 without c)

Source: Ying et al. 2021, arXiv 2106.05234.

Conventions:
- Positions are node numbers, integers from 0. Edges are undirected.
- ``phi`` is the number of edges on the shortest path. It is clipped at ``max_distance``. Nodes without a path between
  them use the last row of the table.
- The graphs come with the positions: ``posenc.graphs([..], view="hops")``. For one graph that never changes, ``edges``
  may be given instead.
- ``c`` is a bias of the edge that joins two nodes, by its integer attribute, such as the type of a bond. Eq. 7 of the
  paper averages over the edges of a shortest path instead.
- Tables start as N(0, 0.02^2). All layers share one instance, built for the number of query heads.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from posenc.graph_data.distances import FARTHEST
from posenc.graph_data.edges import Graph
from posenc.kernels import node_tables
from posenc.kernels.pairs import Pairs, PairScheme
from posenc.positions import Positions
from posenc.scheme import At, Claims, per_head

SIGMA = 0.02
"""Standard deviation of the initial tables."""
TREE = torch.tensor([(n, (5 * n + 3) % n) for n in range(1, 22)] + [(22, 23)])
"""Edges of the examples: a tree of 22 nodes, and two more nodes with one edge between them."""


class GraphDistance(PairScheme):
    """Learned bias per head and shortest-path length (the spatial encoding of Graphormer), for the nodes of graphs.

        s_ij = q_i . k_j + b_h[phi(v_i, v_j)] + c_h[type(v_i, v_j)]

    Args:
        heads: Number of query heads, or a divisor of it: then as many neighboring query heads share a column of the
            table. With 1, all heads share it.
        edges: One graph for all positions, as pairs of node numbers ``(E, 2)`` or as a ``Graph``. Default: None, so
            that ``Positions.graph`` of ``graph(.., view="hops")`` or ``graphs(.., view="hops")`` has the graphs.
        nodes: Number of nodes of the largest graph. Default: 5,000, or that of ``edges``.
        max_distance: Number of edges from which on all lengths share one row of the table, at most 127. Default: 20,
            as in the authors' code.
        edge_types: Number of types of edges, if their integer attributes (``Graph.edge_attr``) have a bias. Default: 0.
        generator: Random generator of the initial tables. Default: torch's global generator.

    Raises:
        ValueError: If ``heads`` or ``max_distance`` is less than 1, ``edges`` are not the edges of a graph, or both
            ``edges`` and ``edge_types`` are given.

    Example:
        >>> import torch
        >>> from posenc import GraphDistance, attention, graphs
        >>> pos = graphs([[(0, 1), (1, 2), (2, 3)], [(0, 1)]], view="hops")
        >>> q = k = v = torch.randn(2, 2, 4, 16)  # (batch, heads, nodes, head_dim)
        >>> attention(q, k, v, scheme=GraphDistance(heads=2), q_pos=pos).shape
        torch.Size([2, 2, 4, 16])

    References:
        Ying et al. 2021, arXiv 2106.05234, eq. 6.
    """

    cite = """@inproceedings{ying2021do,
  title={Do Transformers Really Perform Badly for Graph Representation?},
  author={Ying, Chengxuan and Cai, Tianle and Luo, Shengjie and Zheng, Shuxin and Ke, Guolin and He, Di
  and Shen, Yanming and Liu, Tie-Yan}, booktitle={NeurIPS}, year={2021}, note={arXiv:2106.05234}}"""
    examples = (
        {"heads": 4, "edges": TREE},
        {"heads": 4, "edges": TREE, "max_distance": 2},
        {"heads": 1, "edges": TREE, "nodes": 25},
        {"heads": 4, "nodes": 24},
        {"heads": 4, "nodes": 24, "edge_types": 3},
    )
    graph_view = "hops"
    bias_reads = frozenset()

    table: nn.Parameter
    types: nn.Parameter | None

    def __init__(
        self,
        heads: int,
        edges: Sequence[tuple[int, int]] | Tensor | Graph | None = None,
        *,
        nodes: int | None = None,
        max_distance: int = 20,
        edge_types: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if heads < 1 or not 1 <= max_distance <= FARTHEST or edge_types < 0 or (nodes is not None and nodes < 1):
            raise ValueError(
                f"GraphDistance needs heads >= 1, max_distance from 1 to {FARTHEST}, nodes >= 1 and edge_types >= 0; "
                f"got {heads=}, {max_distance=}, {nodes=}, {edge_types=}."
            )
        if edges is not None and edge_types:
            raise ValueError(
                "types of edges are read from the graphs of a batch, and `edges` has none. Leave `edges` out, and make "
                "positions by posenc.graphs([..], view='hops') of graphs with edge_attr."
            )
        self.max_distance = max_distance
        self.graph_reads = frozenset({"hops"} if edges is None else ())
        self.edges, own = node_tables.one_graph(edges, nodes)
        self._own = own  # it follows from the edges, so that a state_dict need not have it
        self.table = nn.Parameter(torch.empty(max_distance + 2, heads))
        self.types = nn.Parameter(torch.empty(edge_types, heads)) if edge_types else None
        self.register_load_state_dict_pre_hook(node_tables.without_rows)
        self.reset_parameters(generator)
        even = own is not None and torch.equal(own[:-1, :-1], own[1:, 1:])  # on a path or a ring
        self.claims = Claims(
            translation="exact" if even else "none",
            isometric=True,
            learned=True,
            range=(0, (nodes or 5000) - 1 if own is None else len(own) - 1),
            axes=1,
            sites=frozenset({"bias"}),
            sharing="head" if heads > 1 else "model",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the tables; needed after construction on the meta device.

        Args:
            generator: Random generator of the tables. Default: torch's global generator.
        """
        for table in self.parameters():
            nn.init.normal_(table, std=SIGMA, generator=generator)

    @override
    def prepare(self, pos: Positions) -> Positions:
        pos = self._whole(pos)
        node_tables.require_nodes_of_the_graph(pos, self._own, "GraphDistance")
        if self.types is not None:
            node_tables.require_types_of_edges(pos, len(self.types), "GraphDistance")
        return pos

    @override
    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, attn_mask: Tensor | None) -> Tensor:
        return node_tables.bias_of_nodes(self._tables(q, pair), pair)

    def _tables(self, q: Tensor, pair: Pairs) -> list[node_tables.PairTable]:
        """The table of each term, for the heads of q, with the row of each pair of nodes."""
        graph = pair.k.graph
        lengths = graph.hops if self._own is None and graph is not None else self._own
        assert lengths is not None
        found = [node_tables.length_table(per_head(self.table, q, "GraphDistance", dim=1), lengths, self.max_distance)]
        if self.types is not None and graph is not None and graph.edge_types is not None:
            padded = functional.pad(self.types, (0, 0, 1, 0))  # row 0: no edge
            found.append((per_head(padded, q, "GraphDistance", dim=1), graph.edge_types, Tensor.long))
        return found

    @override
    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        return node_tables.score_of_nodes(self._tables(q, pair), q.shape[1], pair)

    @override
    def define_bias(self, at: At) -> Tensor:
        start, stop = int(at.q_pos[at.i, 0]), int(at.k_pos[at.j, 0])
        edges = self.edges if at.graph is None else at.graph.edge_index.T.tolist()
        reached, length = {start}, 0
        while stop not in reached and length <= self.max_distance + len(edges):
            reached, length = reached | {b for a, b in edges if a in reached}, length + 1
        row = min(length, self.max_distance) if stop in reached else -1
        bias = self.table[row, at.head.among(self.table.shape[1])]
        if self.types is None or at.graph is None or at.graph.edge_attr is None:
            return bias
        joining = (at.graph.edge_attr[n] for n, edge in enumerate(edges) if tuple(edge) == (start, stop))
        return bias + sum(self.types[kind, at.head.among(self.types.shape[1])] for kind in joining)
