"""Checks of schemes for graph nodes: what does not describe the graph has no effect on them.

They run for schemes that read the graphs of positions (``Scheme.graph_reads``).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from posenc.attention import attend_at
from posenc.contract.case import Case, largest_difference, require
from posenc.graph_data.builders import View, graphs
from posenc.graph_data.edges import Graph
from posenc.positions import Positions
from posenc.scheme import Scheme

EXACT = 1e-5
"""Tolerance: coordinates of graphs are float32."""
LOBES = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 3)]
"""Two triangles and an edge between them, 6 nodes. Its largest eigenvalue is a multiple one."""
RING = [(n, (n + 1) % 7) for n in range(7)]
"""A ring, whose eigenvalues come in pairs."""


def renumbered_nodes_are_the_same_nodes(case: Case) -> None:
    """Nodes in another order have the same effects, in that order: also where eigenvalues are equal."""
    if not case.make(randomize=False).graph_reads:
        return
    order = torch.tensor([3, 0, 6, 1, 4, 5, 2])  # node n is called order[n]
    moved = [(int(order[a]), int(order[b])) for a, b in RING]
    before, after = _of_graph(case, RING), _of_graph(case, moved, order=order)
    _same(before, {name: value.index_select(-2, order) for name, value in after.items()}, "renumbering the nodes")


def signs_of_eigenvectors_do_not_matter(case: Case) -> None:
    scheme = case.make()
    if "eigenvalues" not in scheme.graph_reads:
        return
    pos = _positions(case, scheme, [LOBES])
    flips = torch.tensor([(-1.0) ** axis for axis in range(pos.axes)]) * -1
    flipped = dataclasses.replace(pos, coords=pos.coords * flips)
    _same(_effects(case, scheme, pos), _effects(case, scheme, flipped), "flipping the signs of eigenvectors")


def the_basis_of_equal_eigenvalues_does_not_matter(case: Case) -> None:
    scheme = case.make()
    if "eigenvalues" not in scheme.graph_reads or (case.claims.axes or 2) < 2:
        return
    pos = _positions(case, scheme, [RING])  # axes 0 and 1 belong to one eigenvalue
    turn = torch.eye(pos.axes, dtype=pos.coords.dtype)
    turn[:2, :2] = torch.tensor([[0.6, 0.8], [-0.8, 0.6]], dtype=turn.dtype)
    turned = dataclasses.replace(pos, coords=pos.coords @ turn)
    _same(_effects(case, scheme, pos), _effects(case, scheme, turned), "rotating eigenvectors of one eigenvalue")


def a_disjoint_union_is_its_parts(case: Case) -> None:
    """A component of a graph has the effects of the same graph alone."""
    scheme = case.make()
    if not scheme.graph_reads or "embed" not in scheme.claims.sites:
        return  # attention reads all keys, as it should
    union = [*LOBES, *((a + 6, b + 6) for a, b in RING)]
    rows = _effects(case, scheme, _positions(case, scheme, [union]))["rows"]
    for what, part in ((LOBES, slice(0, 6)), (RING, slice(6, 13))):
        alone = _effects(case, scheme, _positions(case, scheme, [what]))["rows"]
        _same({"rows": alone}, {"rows": rows[:, part]}, "joining another graph without an edge to it")


def a_padded_graph_is_the_graph_alone(case: Case) -> None:
    scheme = case.make()
    if not scheme.graph_reads:
        return
    alone = _effects(case, scheme, _positions(case, scheme, [LOBES]))
    batch = _effects(case, scheme, _positions(case, scheme, [RING, LOBES]))
    _same(alone, {name: value[1:, ..., :6, :] for name, value in batch.items()}, "padding a graph")


def _of_graph(case: Case, edges: list[tuple[int, int]], order: Tensor | None = None) -> dict[str, Tensor]:
    scheme = case.make()
    return _effects(case, scheme, _positions(case, scheme, [edges]), order)


def _positions(case: Case, scheme: Scheme, many: list[list[tuple[int, int]]]) -> Positions:
    """Positions of graphs on the view that the scheme reads; their edges have types 0 to 2."""
    view: View = "hops" if "hops" in scheme.graph_reads else "eigenvectors"
    made = []
    for edges in many:
        index = torch.tensor(edges).T
        types = (index.sum(0) * 0).repeat(2)
        made.append(Graph(torch.cat([index, index.flip(0)], 1), edge_attr=types))
    axes = None if view == "hops" else case.claims.axes
    pos = graphs(made, view=view, axes=axes, ties="whole")
    return dataclasses.replace(pos, coords=pos.coords.double())


def _effects(case: Case, scheme: Scheme, pos: Positions, order: Tensor | None = None) -> dict[str, Tensor]:
    """Embedding rows, and outputs of attention at nodes whose contents depend on their number."""
    effects: dict[str, Any] = {}
    if "embed" in scheme.claims.sites:
        rows = scheme.embed(scheme.prepare(pos))
        effects["rows"] = rows
    if scheme.claims.sites - {"embed", "mix"}:
        most = 7
        contents = [t[:1] for t in (*case.qkv(scheme, most), case.x(most))]
        if order is not None:
            contents = [torch.empty_like(t).index_copy(-2, order, t) for t in contents]
        q, k, v, x = (t[..., : pos.count, :].expand(len(pos.coords), *t.shape[1:-2], -1, -1) for t in contents)
        mask = None if pos.placed is None else pos.placed[:, None, None, :]
        effects["attention"] = attend_at(q, k, v, scheme=scheme, q_pos=pos, x=x, mask=mask)
    return {name: value.detach() for name, value in effects.items()}


def _same(before: dict[str, Tensor], after: dict[str, Tensor], what: str) -> None:
    for name, value in before.items():
        worst = largest_difference(after[name], value)
        require(worst <= EXACT, f"{what} changes its {name} by {worst:.1e} (allowed {EXACT:.0e}).")
