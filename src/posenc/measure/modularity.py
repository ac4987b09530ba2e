"""Whether what was learned of the tokens falls into modules: given ones, or ones to be found.

    W = 1 - (D - min D) / (max D - min D)                                          how alike two tokens are
    Q = 1/l sum_ij (W_ij - k_i k_j / l) [m_i = m_j],   l = sum W,  k_i = sum_j W_ij          modularity
    C = mean_m (W_in - W_out) / W_in,   W_in, W_out the mean inside module m and between it and the others: segregation

Source: arXiv 2406.08272, appendix A.3; Newman 2004, doi 10.1103/PhysRevE.70.056131; Gomez, Jensen & Arenas 2009, doi
10.1103/PhysRevE.80.016114 (signed weights); Blondel et al. 2008, arXiv 0803.0476 (Louvain); Hubert & Arabie 1985, doi
10.1007/BF01908075 (adjusted Rand index). What each would be by chance: ``posenc.measure.permuting.by_chance``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor
from torch.nn.functional import one_hot

from posenc.measure.distances import nearer

Modules = Sequence[str] | Sequence[int] | np.ndarray | Tensor
"""Which module each token belongs to: a name or a number a token, ``(N,)``."""


def numbered(modules: Modules) -> Int64[Tensor, "N"]:
    """Modules as numbers from 0, in the order of their names."""
    return torch.from_numpy(np.unique(np.asarray(modules), return_inverse=True)[1].reshape(-1).astype(np.int64))


def similarity(distances: Tensor, *, diagonal: bool = False) -> Float64[Tensor, "N N"]:
    """``W = 1 - minmax(D)``, 1 for the nearest two tokens and 0 for the farthest; zeros on the diagonal.

    distances: ``(N, N)``, as ``token_distances`` gives. diagonal: the paper's formula to the letter, in which a token
    is at distance 0 from itself: ``W = 1 - D / max D``, 1 on the diagonal. That alone gives pure noise a modularity
    above 0 (about 0.12 for 15 tokens of width 32 in three modules), so compare it with its null.

    Raises ValueError for another shape, and where all distances are one (an untrained or missing encoding).
    """
    d = _square(distances, "distances")
    off = ~torch.eye(len(d), dtype=torch.bool)
    low, high = (0.0 if diagonal else float(d[off].min())), float(d[off].max())
    if not high - low > 1e-12 * high:
        raise ValueError("all tokens are equally far from each other, so that none are alike. Does the scheme learn?")
    return (1 - (d - low) / (high - low)) * (off | diagonal)


def modularity(weights: Tensor, modules: Modules, *, signed: bool = False) -> float:
    """``Q`` of symmetric weights ``(N, N)`` for given modules: 0 for weights that do not know them, below 1.

    signed: for weights of both signs, ``Q = (l+ Q+ - l- Q-) / (l+ + l-)``, where negative weights inside a module count
    against it; the same number where there are none. Raises ValueError for negative weights without it, another shape,
    weights that are not symmetric, and zeros alone.
    """
    w, m = _square(weights, "weights"), numbered(modules)
    _refuse_other_length(len(m), len(w))
    if not torch.allclose(w, w.T, rtol=1e-9, atol=1e-12 * float(w.abs().max())):
        raise ValueError("modularity is of symmetric weights; these differ from their transpose. Use (W + W.T) / 2.")
    if not signed and bool((w < 0).any()):
        raise ValueError(
            f"modularity is of weights of at least 0; the least is {float(w.min()):.3g}. Pass signed=True, which "
            "counts negative weights against a module, or clip them."
        )
    total = float(w.abs().sum())
    if not total:
        raise ValueError("modularity is of weights that are not all 0. Do the tokens differ at all?")
    own = one_hot(m).double()
    found = 0.0
    for part, sign in ((w.clamp(min=0), 1), ((-w).clamp(min=0), -1)) if signed else ((w, 1),):
        length, inside, k = float(part.sum()), float((own * (part @ own)).sum()), part.sum(1) @ own
        found += sign * (inside - float(k @ k) / length) / total if length else 0
    return found


def segregation(weights: Tensor, modules: Modules) -> float:
    """``C``: how much less alike tokens are across modules than inside, as a share of the inside; at most 1.

    weights: ``(N, N)``; the diagonal does not count. A module of one token has no inside and does not count either.
    Raises ValueError for negative weights, fewer than two modules, none with an inside, or an inside without weight.
    """
    w, m = _square(weights, "weights"), numbered(modules)
    _refuse_other_length(len(m), len(w))
    if bool((w < 0).any()):
        raise ValueError(f"segregation is of weights of at least 0; the least is {float(w.min()):.3g}. Clip them.")
    off = ~torch.eye(len(w), dtype=torch.bool)
    counts = torch.bincount(m)
    if len(counts) < 2 or not bool((counts > 1).any()):
        raise ValueError(f"segregation is of two modules or more, one of two tokens or more; got {counts.tolist()}.")
    shares = []
    for number in (counts > 1).nonzero().flatten():
        own = m == number
        inside, outside = float(w[own][:, own][off[own][:, own]].mean()), float(w[own][:, ~own].mean())
        if not inside:
            raise ValueError("segregation divides by the weight inside a module, which is 0 in one. Use modularity.")
        shares.append((inside - outside) / inside)
    return float(np.mean(shares))


def pair_auc(distances: Tensor, modules: Modules) -> float:
    """The chance that two tokens of one module are nearer than two of different ones; ties count half. 0.5: no modules.

    Raises ValueError where no two tokens, or all, are of one module.
    """
    d, m = _square(distances, "distances"), numbered(modules)
    _refuse_other_length(len(m), len(d))
    return nearer(d, m[:, None] == m)


def found_modules(
    distances: Tensor, *, neighbours: int | None = None, tries: int = 10, seed: int = 0
) -> Int64[Tensor, "N"]:
    """Modules that nobody named, the largest number 0: Louvain on the graph in which two tokens are joined where each
    is among the other's nearest.

    neighbours: how many are nearest; otherwise ``round(sqrt(N))``. Modules of fewer tokens than that may merge with
    others, though far less than where either is enough (adjusted Rand 0.99 and 0.91 for 360 tokens in 12 well separated
    modules of 4 to 77), or on all similarities at once. A token that nobody joins is a module of its own.
    tries: orders in which it is begun; the partition of the highest modularity is kept. Raises ValueError for another
    shape or a number of neighbours that no token has.
    """
    import networkx

    d = _square(distances, "distances")
    k = round(len(d) ** 0.5) if neighbours is None else neighbours
    if not 0 < k < len(d) or tries < 1:
        raise ValueError(f"{len(d)} tokens have 1 to {len(d) - 1} neighbours each; got neighbours={k}, tries={tries}.")
    away = d + torch.diag(torch.full((len(d),), torch.inf, dtype=d.dtype))
    near = torch.zeros(d.shape, dtype=torch.bool).scatter_(1, away.topk(k, dim=1, largest=False).indices, True)
    graph = networkx.from_numpy_array((near & near.T).numpy())
    if not graph.number_of_edges():
        return torch.arange(len(d))
    parts = [networkx.community.louvain_communities(graph, seed=seed + number) for number in range(tries)]
    best = max(parts, key=lambda part: networkx.community.modularity(graph, part))
    found = torch.empty(len(d), dtype=torch.int64)
    for number, module in enumerate(sorted(best, key=lambda module: (-len(module), min(module)))):
        found[list(module)] = number
    return found


def adjusted_rand(a: Modules, b: Modules) -> float:
    """How far two partitions agree beyond chance: 1 where they are the same, about 0 for unrelated ones.

    ``(s - e) / (m - e)``, s the pairs together in both, e its mean over permutations, m the mean of the pairs together
    in either. Raises ValueError for partitions of different lengths, and of fewer than two tokens.
    """
    first, second = numbered(a), numbered(b)
    _refuse_other_length(len(second), len(first))
    if len(first) < 2:
        raise ValueError(f"partitions agree on pairs of tokens; got {len(first)} of them. Two at least are needed.")
    table = torch.zeros(int(first.max()) + 1, int(second.max()) + 1, dtype=torch.float64)
    table.index_put_((first, second), torch.ones(len(first), dtype=torch.float64), accumulate=True)
    both, one, other = (float((n * (n - 1) / 2).sum()) for n in (table, table.sum(1), table.sum(0)))
    expected, most = one * other / (len(first) * (len(first) - 1) / 2), (one + other) / 2
    return 1.0 if most == expected else (both - expected) / (most - expected)


def _square(matrix: Tensor, what: str) -> Float64[Tensor, "N N"]:
    if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise ValueError(f"{what} are between every two tokens, (N, N); got {tuple(matrix.shape)}.")
    matrix = matrix.detach().cpu().double()
    if not bool(torch.isfinite(matrix).all()):
        raise ValueError(f"{what} are finite; some are nan or infinite here. Did training diverge?")
    return matrix


def _refuse_other_length(got: int, needed: int) -> None:
    if got != needed:
        raise ValueError(f"each of {needed} tokens belongs to one module; got {got}. Name one a token.")
