"""Groups of tokens by average linkage, with a number of groups that is chosen by stability.

    A(g) = mean over pairs (a, b) of the adjusted Rand index of g groups of a and g groups of b      stability

Here a and b are repeated measurements of the same tokens: tables of two seeds, or correlations of two halves of the
recordings. The number of groups is the g of the highest A(g). On unrelated tokens A(g) is about 0 for every g.

Source: Sokal & Michener 1958 (average linkage, UPGMA); Lange, Roth, Braun & Buhmann 2004, doi
10.1162/089976604773717621 (stability); Kuhn 1955, doi 10.1002/nav.3800020109 (assignment).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from posenc.measure.modularity import adjusted_rand
from posenc.measure.permutation_test import permutation_test

MOST_GROUPS = 20
"""Largest number of groups that is tried."""
Groups = Int64[Tensor, "N"]
Distances = Float64[Tensor, "N N"]


def numbers_of_groups(tokens: int) -> range:
    """Numbers of groups to try: from 2, with two tokens or more per group on average, and at most 20.

    Args:
        tokens: Number of tokens.

    Returns:
        The numbers; none for one token.
    """
    return range(2, min(max(2, min(tokens // 2, MOST_GROUPS)), tokens) + 1)


def correlation_distances(correlations: Tensor) -> Distances:
    """Euclidean distances ``sqrt(2 - 2 r)`` between standardized series with the correlations r.

    Args:
        correlations: ``(N, N)``, from -1 to 1.

    Returns:
        Distances ``(N, N)``; the diagonal is 0.
    """
    distances = (2 - 2 * correlations.double()).clamp(min=0).sqrt()
    return ((distances + distances.T) / 2).fill_diagonal_(0)


def mean_distances(matrices: Sequence[Tensor]) -> Distances:
    """Mean of distance matrices, each divided by its own mean so that all have the same scale.

    Args:
        matrices: Distances ``(N, N)`` of each measurement.

    Returns:
        Distances ``(N, N)``.
    """
    return torch.stack([each.double() / (float(each.double().mean()) or 1.0) for each in matrices]).mean(0)


def groups_by_number(distances: Tensor, numbers: Iterable[int]) -> dict[int, Groups]:
    """Divide tokens into groups by average linkage, for several numbers of groups.

    Args:
        distances: ``(N, N)``, symmetric.
        numbers: Numbers of groups, each from 1 to N.

    Returns:
        Number of groups to group numbers ``(N,)``; group 0 is the largest.

    Raises:
        ValueError: A number of groups is out of range.
    """
    from scipy.cluster.hierarchy import cut_tree, linkage
    from scipy.spatial.distance import squareform

    wanted = list(numbers)
    if bad := [number for number in wanted if not 1 <= number <= len(distances)]:
        raise ValueError(f"{len(distances)} tokens form 1 to {len(distances)} groups; got {bad[0]}.")
    if len(distances) == 1:
        return dict.fromkeys(wanted, torch.zeros(1, dtype=torch.int64))
    d = distances.detach().cpu().double()
    tree = linkage(squareform(((d + d.T) / 2).fill_diagonal_(0).numpy(), checks=False), "average")
    return {number: _by_size(cut_tree(tree, n_clusters=[number])[:, 0]) for number in wanted}


def _by_size(labels: np.ndarray) -> Groups:
    """Number groups from the largest; of equal groups the one with the first token comes first."""
    names, first, counts = np.unique(labels, return_index=True, return_counts=True)
    order = sorted(range(len(names)), key=lambda each: (-counts[each], first[each]))
    place = {names[each]: number for number, each in enumerate(order)}
    return torch.tensor([place[each] for each in labels])


def stability(pairs: Sequence[tuple[Mapping[int, Groups], Mapping[int, Groups]]]) -> dict[int, float]:
    """Mean adjusted Rand index between two measurements, by the number of groups.

    Args:
        pairs: Pairs of measurements; each maps a number of groups to group numbers, as of ``groups_by_number``.

    Returns:
        Number of groups to agreement: 1 for equal groups, about 0 by chance. Empty without pairs.
    """
    if not pairs:
        return {}
    return {number: float(np.mean([adjusted_rand(a[number], b[number]) for a, b in pairs])) for number in pairs[0][0]}


def most_stable(agreement: Mapping[int, float]) -> int:
    """The number of groups with the highest agreement; of equal ones the largest.

    Args:
        agreement: Number of groups to agreement, not empty.

    Returns:
        The number.
    """
    return max(agreement, key=lambda number: (round(agreement[number], 9), number))


def matched_groups(groups: Groups, reference: Groups) -> Groups:
    """Renumber groups so that as many tokens as possible have the number of their reference group.

    Args:
        groups: Group numbers ``(N,)``.
        reference: Reference group numbers ``(N,)``.

    Returns:
        Group numbers ``(N,)``. A group without a counterpart gets a number that the reference does not have.

    Example:
        >>> matched_groups(torch.tensor([1, 1, 0, 0, 2]), torch.tensor([0, 0, 1, 1, 1]))
        tensor([0, 0, 1, 1, 2])
    """
    from scipy.optimize import linear_sum_assignment

    names, others = groups.unique().tolist(), reference.unique().tolist()
    common = np.array([[int(((groups == a) & (reference == b)).sum()) for b in others] for a in names])
    rows, columns = linear_sum_assignment(-common)
    number_of = {names[row]: others[column] for row, column in zip(rows, columns, strict=True) if common[row, column]}
    unused = max(others) + 1
    for name in names:
        if name not in number_of:
            number_of[name], unused = unused, unused + 1
    return torch.tensor([number_of[name] for name in groups.tolist()])


def share_of_agreement(repeated: Sequence[Groups], reference: Groups) -> Float64[Tensor, "N"]:
    """Share of repeated measurements that put each token into its reference group.

    Args:
        repeated: Group numbers ``(N,)`` of each measurement, matched to the reference.
        reference: Reference group numbers ``(N,)``.

    Returns:
        Shares ``(N,)``, from 0 to 1.
    """
    return torch.stack([each == reference for each in repeated]).double().mean(0)


def nearest_other_group(distances: Tensor, groups: Groups) -> Groups:
    """The other group with the smallest mean distance from each token.

    Args:
        distances: ``(N, N)``.
        groups: Group numbers ``(N,)``, of two groups or more.

    Returns:
        Group numbers ``(N,)``.
    """
    numbers = groups.unique()
    means = torch.stack([distances[:, groups == number].double().mean(1) for number in numbers], 1)
    means[groups[:, None] == numbers] = torch.inf
    return numbers[means.argmin(1)]


def correlation_within_groups_p(correlations: Tensor, groups: Groups, *, draws: int = 199, seed: int = 0) -> float:
    """P-value of the mean correlation within groups against groups that are permuted over the tokens.

    With correlations of recordings that did not decide the groups, the test is exact: unrelated channels have a
    p-value below 0.05 in at most 5% of cases.

    Args:
        correlations: ``(N, N)``, not of the recordings that decided the groups.
        groups: Group numbers ``(N,)``.
        draws: Number of permutations.
        seed: Seed of the permutations.

    Returns:
        The one-sided p-value; 1 if every group has one token.
    """
    own = torch.nn.functional.one_hot(groups - groups.min()).double()
    if float(own.sum(0).max()) < 2:
        return 1.0
    without_diagonal = correlations.double().clone().fill_diagonal_(0)
    return permutation_test(lambda rows: float((rows * (without_diagonal @ rows)).sum()), own, draws=draws, seed=seed).p


def combined_p(values: Sequence[float]) -> float:
    """Twice the median of p-values, which is a p-value whatever their dependence (Rüger 1978).

    Args:
        values: P-values, at least one.

    Returns:
        The combined p-value, at most 1; a single p-value is returned unchanged.

    Raises:
        ValueError: No p-value.
    """
    if not values:
        raise ValueError("p-values are combined from one or more; got none.")
    if len(values) == 1:
        return values[0]
    # The upper median: Rüger's bound needs half of the values, or more, at or below it.
    return min(1.0, 2 * sorted(values)[len(values) // 2])
