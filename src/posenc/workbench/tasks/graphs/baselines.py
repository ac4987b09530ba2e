"""Baselines without a neural network: gradient boosting (scikit-learn) on counts of degrees or of neighborhoods.

degrees   of a graph: number of its nodes of each degree and of each label; of a node: its degree, its label, and the
          smallest, mean and largest degree of its neighbors
wl        of a graph: number of its nodes of each color after 0 to 3 rounds of the Weisfeiler-Lehman test
          (Shervashidze et al. 2011, JMLR 12, 2539-2561); of a node: number of walks of 0 to 3 steps that end at
          each label
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.data.graph_set import GraphSet
from posenc.workbench.tasks.boosting import USUAL_LEAF, booster
from posenc.workbench.tasks.class_split import Parts

BASELINES = ("degrees", "wl")
ROUNDS = 3
MOST_COLUMNS = 500
"""Most frequent colors that are counted."""
MOST_DEGREE = 63
MOST_ROWS = 20_000
"""Largest number of rows on which boosting is trained."""
ITERATIONS = 100
FEW_ROWS = 100
"""Number of training rows below which a leaf may have fewer than usual."""


def boosted(name: str, graphs: GraphSet, parts: Parts, tested: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
    """Train boosting and predict.

    Args:
        name: A name in BASELINES.
        graphs: The graphs.
        parts: Numbers of the items, which are nodes if there is one graph with answers of its nodes, else graphs.
        tested: Numbers of the items to predict.
        seed: Seed of the boosting.

    Returns:
        Probabilities of the classes ``(M, C)``, or values ``(M, T)``, of the answers of the items.
    """
    rows = features(name, graphs)
    train, test = answer_rows(graphs, parts.train), answer_rows(graphs, tested)
    if len(train) > MOST_ROWS:
        train = np.random.default_rng(seed).choice(train, MOST_ROWS, replace=False)
    if graphs.has_classes:
        return _probabilities(rows[train], graphs.answers[train], rows[test], len(graphs.classes), seed)
    columns = []
    for values in graphs.answers[train].T:
        model = booster("Regressor", ITERATIONS, seed, leaf=_leaf(len(train)))
        model.fit(rows[train], values)
        columns.append(model.predict(rows[test]))
    return np.stack(columns, 1)


def answer_rows(graphs: GraphSet, items: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers of the rows of answers that belong to items: the items themselves, or the nodes of these graphs."""
    if not graphs.of_nodes or len(graphs.sizes) == 1:
        return items
    offsets = graphs.offsets.tolist()
    return np.concatenate([np.arange(offsets[item], offsets[item + 1]) for item in items.tolist()])


def _leaf(rows: int) -> int:
    """Fewest rows of a leaf for a number of training rows."""
    return USUAL_LEAF if rows >= FEW_ROWS else max(1, rows // 10)


def _probabilities(
    rows: NDArray[Any], labels: NDArray[np.int64], tested: NDArray[Any], classes: int, seed: int
) -> NDArray[np.float64]:
    model = booster("Classifier", ITERATIONS, seed, leaf=_leaf(len(rows)))
    made = np.zeros((len(tested), classes))
    if len(known := np.unique(labels)) == 1:
        made[:, known] = 1
        return made
    model.fit(rows, labels)
    made[:, model.classes_] = model.predict_proba(tested)
    return made


def features(name: str, graphs: GraphSet) -> NDArray[np.float32]:
    """Features of a baseline.

    Args:
        name: A name in BASELINES.
        graphs: The graphs.

    Returns:
        One row for each graph, or for each node if the answers are of nodes.
    """
    nodes = len(graphs.colors)
    degrees = np.bincount(graphs.edges[0], minlength=nodes)
    if graphs.of_nodes:
        found = _of_nodes(name, graphs, degrees)
        return np.concatenate([found, graphs.attributes.reshape(nodes, -1)], 1).astype(np.float32)
    counted = [np.minimum(degrees, MOST_DEGREE), MOST_DEGREE + 1 + graphs.colors]
    if name == "wl":
        counted = refined_colors(graphs, graphs.colors)
    at = np.repeat(np.arange(len(graphs.sizes)), graphs.sizes)
    tables = [_counts(at, colors, len(graphs.sizes)) for colors in counted]
    sums = [np.bincount(at, column, len(graphs.sizes))[:, None] for column in graphs.attributes.T]
    return np.concatenate([*tables, *sums], 1).astype(np.float32)


def _counts(at: NDArray[np.int64], colors: NDArray[np.int64], graphs: int) -> NDArray[np.float32]:
    """Number of the nodes of each graph that have each of the most frequent colors."""
    different, numbers, counts = np.unique(colors, return_inverse=True, return_counts=True)
    place = np.full(len(different), -1)
    kept = np.argsort(-counts, kind="stable")[:MOST_COLUMNS]
    place[kept] = np.arange(len(kept))
    columns = place[numbers]
    some = columns >= 0
    table = np.zeros((graphs, len(kept)), np.float32)
    np.add.at(table, (at[some], columns[some]), 1)
    return table


def refined_colors(graphs: GraphSet, colors: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Refine colors of nodes by the Weisfeiler-Lehman test; equal neighborhoods have equal colors.

    Args:
        graphs: The graphs.
        colors: Color ``(n,)`` of each node.

    Returns:
        The colors before the first round and after each of them.
    """
    first, second = graphs.edges
    rounds = [colors]
    for _ in range(ROUNDS):
        order = np.lexsort((rounds[-1][second], first))
        words = [row.tobytes() for row in np.split(rounds[-1][second][order], _ends(first[order], len(colors)))]
        number: dict[tuple[int, bytes], int] = {}
        pairs = zip(rounds[-1].tolist(), words, strict=True)
        rounds.append(np.array([number.setdefault(pair, len(number)) for pair in pairs], np.int64))
    return rounds


def _ends(first: NDArray[np.int64], nodes: int) -> NDArray[np.int64]:
    """Places at which the edges of the nodes 1, 2, .. begin."""
    return np.searchsorted(first, np.arange(1, nodes))


def _of_nodes(name: str, graphs: GraphSet, degrees: NDArray[np.int64]) -> NDArray[np.float32]:
    nodes, (first, second) = len(degrees), graphs.edges
    labels = np.eye(max(len(graphs.color_names), 1), dtype=np.float32)[graphs.colors]
    if name == "wl":
        walks = [labels if labels.shape[1] > 1 else np.ones((nodes, 1), np.float32)]
        for _ in range(ROUNDS):
            summed = np.zeros_like(walks[-1])
            np.add.at(summed, first, walks[-1][second])
            walks.append(summed)
        return np.concatenate(walks, 1)
    low, high = np.full(nodes, np.inf), np.zeros(nodes)
    np.minimum.at(low, first, degrees[second])
    np.maximum.at(high, first, degrees[second])
    mean = np.bincount(first, degrees[second], nodes) / np.maximum(degrees, 1)
    low[~np.isfinite(low)] = 0
    return np.concatenate([np.stack([degrees, low, mean, high], 1), labels], 1).astype(np.float32)
