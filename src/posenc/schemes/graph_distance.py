"""GraphDistance: a learned number for each head and each number of links on the shortest way between two nodes.

    s_ij = q_i . k_j + b_h[phi(v_i, v_j)]        (eq. 6)

Source: Ying et al. 2021, arXiv 2106.05234 (spatial encoding of Graphormer). Conventions: positions are whole node
numbers from 0; links have no direction; ``phi`` is cut at ``max_distance``, and nodes without a way between them have a
row of their own, the last. For many small graphs, number their nodes on: their union is one graph, and no way leads
from one to another. The table starts as N(0, 0.02^2); one for all layers, built for the query heads.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from posenc.kernels.pairs import Pairs
from posenc.kernels.tables import of_pairs
from posenc.positions import Positions, node_pairs
from posenc.scheme import At, Claims, Scheme, per_head

SIGMA = 0.02
TREES = torch.tensor([(n, (5 * n + 3) % n) for n in range(1, 22)] + [(22, 23)])
"""Of the examples: a tree of 22 nodes, and two nodes that nothing links to it."""


class GraphDistance(Scheme):
    """``b_h[links between nodes p_i and p_j]`` on the logits, for the nodes of one graph.

    heads: the number of query heads. edges: pairs of node numbers, ``(E, 2)``. nodes: their number, if some have no
    edge. max_distance: from which on all share a row, the paper's code has 20. generator: of the first table.
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
        self.edges = node_pairs(edges)
        ends = [end for edge in self.edges for end in edge]
        count = max(ends, default=-1) + 1 if nodes is None else nodes
        if heads < 1 or max_distance < 1:
            got = f"heads={heads}, max_distance={max_distance}"
            raise ValueError(f"GraphDistance needs heads >= 1 and max_distance >= 1; got {got}.")
        if count < 1 or min(ends, default=0) < 0 or max(ends, default=0) >= count:
            raise ValueError(
                f"{count} nodes are numbered from 0 to {count - 1}, and edges are pairs of them; got "
                f"{f'numbers from {min(ends)} to {max(ends)}' if ends else 'no edge'}. Number nodes from 0, or pass "
                "nodes."
            )
        self.max_distance = max_distance
        self.table = nn.Parameter(torch.empty(max_distance + 2, heads))
        self.register_buffer("rows", torch.empty(count, count, dtype=torch.long))
        self.reset_parameters(generator)
        even = all(a[:-1] == b[1:] for a, b in itertools.pairwise(links(self.edges, count)))  # as on a line or a ring
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
        """Draw the table and count the links anew (also after building on the meta device)."""
        nn.init.normal_(self.table, std=SIGMA, generator=generator)
        far, ways = self.max_distance, links(self.edges, len(self.rows))
        rows = [[far + 1 if way is None else min(way, far) for way in of_node] for of_node in ways]
        self.rows.copy_(torch.tensor(rows, device="cpu"))

    def prepare(self, pos: Positions) -> Positions:
        return self._whole(pos)

    def relate(self, where_q: Positions, where_k: Positions) -> Pairs:
        return Pairs(where_q, where_k)

    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, seen: Tensor | None) -> Tensor:
        row = self.rows[_nodes(pair.q)[..., :, None], _nodes(pair.k)[..., None, :]]
        row = row.unsqueeze(-3) if row.dim() == 3 else row
        return pair.neutral(of_pairs(per_head(self.table, q, "GraphDistance", dim=1), row))

    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        read, rows = pair.reader(), self.rows
        at_q, at_k = (n if n.dim() == 2 else n[None] for n in (_nodes(pair.q), _nodes(pair.k)))
        table = per_head(self.table, q, "GraphDistance", dim=1).expand(-1, q.shape[1])

        def linked(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            _, placed = read(b, i, j)
            one, other = at_q[b if len(at_q) > 1 else 0, i], at_k[b if len(at_k) > 1 else 0, j]
            higher = score + table[rows[one, other], h]
            return higher if placed is None else torch.where(placed, higher, score)

        return linked

    def define_bias(self, at: At) -> Tensor:
        start, end = int(at.q_pos[at.i, 0]), int(at.k_pos[at.j, 0])
        reached, way = {start}, 0
        while end not in reached:
            wider = reached | {b for edge in self.edges for a, b in (edge, edge[::-1]) if a in reached}
            if wider == reached:
                return self.table[-1, at.head.among(self.table.shape[1])]
            reached, way = wider, way + 1
        return self.table[min(way, self.max_distance), at.head.among(self.table.shape[1])]


def links(edges: Iterable[tuple[int, int]], count: int) -> list[list[int | None]]:
    """The number of links on the shortest way from each node to each, None where there is none."""
    near: list[set[int]] = [set() for _ in range(count)]
    for a, b in (way for edge in edges for way in (edge, edge[::-1])):
        near[a].add(b)
    found: list[list[int | None]] = []
    for start in range(count):
        way: list[int | None] = [None] * count
        edge, steps = {start}, 0
        while edge:
            for node in edge:
                way[node] = steps
            edge, steps = {n for node in edge for n in near[node] if way[n] is None}, steps + 1
        found.append(way)
    return found


def _nodes(pos: Positions) -> Tensor:
    """Node numbers ``(N,)`` or ``(B, N)``; 0 for a token without a place."""
    number = pos.coords[..., 0].long()
    return number if pos.placed is None else number.where(pos.placed, 0)
