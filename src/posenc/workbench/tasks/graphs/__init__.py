"""Graphs with answers: classes or values of graphs or of nodes, views of the nodes, folds, scores and baselines.

>>> import numpy as np, torch
>>> graphs = skip_links(20, seed=(0, 0))
>>> graphs.sizes[0], graphs.classes[:2], int(np.bincount(graphs.edges[0]).max())
(np.int64(41), ('skip 2', 'skip 3'), 4)
>>> batches = GraphBatches(graphs, "walks", view_arrays(graphs, "walks"), np.arange(20))
>>> features, pos = batches.batch(torch.tensor([3, 4]), axes=16)
>>> features.shape, pos.coords.shape
(torch.Size([2, 41, 1]), torch.Size([2, 41, 16]))
>>> parts = fold_parts(graphs.answers, seed=0)
>>> len(parts.test), len(np.unique(np.concatenate([fold_parts(graphs.answers, seed).test for seed in range(5)])))
(4, 20)
>>> far = distances([12, 30], seed=(0, 0))
>>> [int(each.max()) > 1 for each in np.split(far.answers, [12])]
[True, True]
"""

from __future__ import annotations

from posenc.workbench.tasks.boosting import has_boosting
from posenc.workbench.tasks.graphs.baselines import BASELINES, answer_rows, boosted
from posenc.workbench.tasks.graphs.equal_graphs import equal_graphs_note
from posenc.workbench.tasks.graphs.folds import FOLDS, fold_parts
from posenc.workbench.tasks.graphs.made_graphs import NODES, SKIPS, Kind, distances, skip_links
from posenc.workbench.tasks.graphs.node_views import AXES, MOST_DEGREE, Arrays, GraphBatches, NodeView, view_arrays
from posenc.workbench.tasks.graphs.scores import SizeRange, by_size, class_scores, size_ranges, value_scores

__all__ = [
    "AXES",
    "BASELINES",
    "FOLDS",
    "MOST_DEGREE",
    "NODES",
    "SKIPS",
    "Arrays",
    "GraphBatches",
    "Kind",
    "NodeView",
    "SizeRange",
    "answer_rows",
    "boosted",
    "by_size",
    "class_scores",
    "distances",
    "equal_graphs_note",
    "fold_parts",
    "has_boosting",
    "size_ranges",
    "skip_links",
    "value_scores",
    "view_arrays",
]  # fmt: skip
