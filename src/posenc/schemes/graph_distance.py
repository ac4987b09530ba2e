"""Graph distance: the spatial encoding of Graphormer, a learned bias per head and shortest-path length of two nodes.

    s_ij = q_i . k_j + b_h[phi(v_i, v_j)]        (eq. 6)

Source: Ying et al. 2021, arXiv 2106.05234.

Conventions:
- Positions are node numbers, integers from 0. Edges are undirected.
- ``phi`` is the number of edges on the shortest path. It is clipped at ``max_distance``. Nodes without a path between
  them use the last row of the table.
- For many small graphs, number the nodes of each graph after those of the one before. Their union is one graph without
  paths between its parts.
- The table starts as N(0, 0.02^2). All layers share one instance, built for the number of query heads.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.kernels.pairs import Pairs, PairScheme
from posenc.kernels.table_lookup import look_up_pairs
from posenc.positions import Positions, node_pairs
from posenc.scheme import At, Claims, per_head

SIGMA = 0.02
"""Standard deviation of the initial table."""
TREES = torch.tensor([(n, (5 * n + 3) % n) for n in range(1, 22)] + [(22, 23)])
"""Edges of the examples: a tree of 22 nodes, and two more nodes with one edge between them."""


class GraphDistance(PairScheme):
    """Learned bias per head and shortest-path length (the spatial encoding of Graphormer), for the nodes of one graph.

        s_ij = q_i . k_j + b_h[phi(v_i, v_j)]

    Args:
        heads: Number of query heads.
        edges: Edges as pairs of node numbers, ``(E, 2)``, undirected.
        nodes: Number of nodes. Default: the highest node number in ``edges`` plus 1.
        max_distance: Number of edges from which on all lengths share one row of the table. Default: 20, as in the
            authors' code.
        generator: Random generator of the initial table. Default: torch's global generator.

    Raises:
        ValueError: If ``heads`` or ``max_distance`` is less than 1, or ``edges`` are not pairs of numbers of the nodes.

    Example:
        >>> import torch
        >>> from posenc import GraphDistance, attention, sequence
        >>> scheme = GraphDistance(heads=2, edges=[(0, 1), (1, 2), (2, 3)])
        >>> q = k = v = torch.randn(1, 2, 4, 16)  # (batch, heads, nodes, head_dim)
        >>> attention(q, k, v, scheme=scheme, q_pos=sequence(4)).shape
        torch.Size([1, 2, 4, 16])

    References:
        Ying et al. 2021, arXiv 2106.05234, eq. 6.
    """

    cite = """@inproceedings{ying2021do,
  title={Do Transformers Really Perform Badly for Graph Representation?},
  author={Ying, Chengxuan and Cai, Tianle and Luo, Shengjie and Zheng, Shuxin and Ke, Guolin and He, Di
  and Shen, Yanming and Liu, Tie-Yan}, booktitle={NeurIPS}, year={2021}, note={arXiv:2106.05234}}"""
    examples = (
        {"heads": 4, "edges": TREES},
        {"heads": 4, "edges": TREES, "max_distance": 2},
        {"heads": 1, "edges": TREES, "nodes": 25},
    )
    bias_reads = frozenset()

    table: nn.Parameter
    rows: Tensor

    def __init__(
        self,
        heads: int,
        edges: Sequence[tuple[int, int]] | Tensor,
        *,
        nodes: int | None = None,
        max_distance: int = 20,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.edges, self.max_distance = node_pairs(edges), max_distance
        ends = [end for edge in self.edges for end in edge]
        count = max(ends, default=-1) + 1 if nodes is None else nodes
        if heads < 1 or max_distance < 1:
            raise ValueError(f"GraphDistance needs heads >= 1 and max_distance >= 1; got {heads=}, {max_distance=}.")
        if count < 1 or min(ends, default=0) < 0 or max(ends, default=0) >= count:
            got = f"numbers from {min(ends)} to {max(ends)}" if ends else "no edge"
            raise ValueError(
                f"{count} nodes are numbered from 0 to {count - 1}, and edges are pairs of them; got {got}. Number "
                "nodes from 0, or pass nodes."
            )
        self.table = nn.Parameter(torch.empty(max_distance + 2, heads))
        self.register_buffer("rows", torch.empty(count, count, dtype=torch.long))
        self.reset_parameters(generator)
        even = all(a[:-1] == b[1:] for a, b in itertools.pairwise(links(self.edges, count)))  # on a path or a ring
        self.claims = Claims(
            translation="exact" if even else "none",
            isometric=True,
            learned=True,
            range=(0, count - 1),
            axes=1,
            sites=frozenset({"bias"}),
            sharing="head" if heads > 1 else "model",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the table and recompute the shortest paths; needed after construction on the meta device.

        Args:
            generator: Random generator of the table. Default: torch's global generator.
        """
        nn.init.normal_(self.table, std=SIGMA, generator=generator)
        longest, lengths = self.max_distance, links(self.edges, len(self.rows))
        rows = [[longest + 1 if n is None else min(n, longest) for n in of_node] for of_node in lengths]
        self.rows.copy_(torch.tensor(rows, device="cpu"))

    @override
    def prepare(self, pos: Positions) -> Positions:
        return self._whole(pos)

    @override
    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, attn_mask: Tensor | None) -> Tensor:
        row = self.rows[_nodes(pair.q)[..., :, None], _nodes(pair.k)[..., None, :]]
        row = row.unsqueeze(-3) if row.dim() == 3 else row
        return pair.neutral(look_up_pairs(per_head(self.table, q, "GraphDistance", dim=1), row))

    @override
    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        read, rows = pair.reader(), self.rows
        at_q, at_k = (n if n.dim() == 2 else n[None] for n in (_nodes(pair.q), _nodes(pair.k)))
        table = per_head(self.table, q, "GraphDistance", dim=1).expand(-1, q.shape[1])

        def linked(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            _, placed = read(b, i, j)
            higher = score + table[rows[at_q[b if len(at_q) > 1 else 0, i], at_k[b if len(at_k) > 1 else 0, j]], h]
            return higher if placed is None else torch.where(placed, higher, score)

        return linked

    @override
    def define_bias(self, at: At) -> Tensor:
        reached, end, length = {int(at.q_pos[at.i, 0])}, int(at.k_pos[at.j, 0]), 0
        while end not in reached:
            wider = reached | {b for edge in self.edges for a, b in (edge, edge[::-1]) if a in reached}
            if wider == reached:
                return self.table[-1, at.head.among(self.table.shape[1])]
            reached, length = wider, length + 1
        return self.table[min(length, self.max_distance), at.head.among(self.table.shape[1])]


def links(edges: Iterable[tuple[int, int]], count: int) -> list[list[int | None]]:
    """Compute the shortest-path length from each node to each node of an undirected graph.

    Args:
        edges: Edges as pairs of node numbers below ``count``.
        count: Number of nodes.

    Returns:
        ``count`` lists of ``count`` numbers of edges; None where there is no path.
    """
    neighbors: list[set[int]] = [set() for _ in range(count)]
    for a, b in (directed for edge in edges for directed in (edge, edge[::-1])):
        neighbors[a].add(b)
    lengths: list[list[int | None]] = [[None] * count for _ in range(count)]
    for start, row in enumerate(lengths):
        frontier, steps = {start}, 0
        while frontier:
            for node in frontier:
                row[node] = steps
            frontier, steps = {n for node in frontier for n in neighbors[node] if row[n] is None}, steps + 1
    return lengths


def _nodes(pos: Positions) -> Tensor:
    """Return node numbers, ``(N,)`` or ``(B, N)``; 0 for tokens with ``placed=False``."""
    number = pos.coords[..., 0].long()
    return number if pos.placed is None else number.where(pos.placed, 0)
