"""Permutation test: a measurement in comparison with its distribution under random permutations of the tokens."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class PermutationTest:
    """Result of a permutation test.

    Attributes:
        found: measurement with the true rows.
        mean: mean under permutations.
        sd: standard deviation under permutations.
        low: lower end of the interval that contains the share ``level`` of the permutations.
        high: upper end of that interval.
        p: one-sided p-value ``(1 + c) / (1 + draws)``, with c the number of permutations that are at least as extreme
            as the true rows. It is never 0, and nan if a measurement is not finite.
        level: coverage of the interval.
    """

    found: float
    mean: float
    sd: float
    low: float
    high: float
    p: float
    level: float

    @property
    def z(self) -> float:
        """Standard deviations between the measurement and the mean under permutations; nan without variation."""
        return (self.found - self.mean) / self.sd if self.sd else math.nan


def permutation_test(
    measured: Callable[[Tensor], float],
    rows: Tensor,
    *,
    draws: int = 1000,
    seed: int = 0,
    smaller: bool = False,
    level: float = 0.95,
) -> PermutationTest:
    """Run a permutation test: measure the true rows and the same rows in random orders.

    Args:
        measured: function from rows to a number.
        rows: one row per token, such as its module number ``(N,)`` or its true position ``(N, P)``.
        draws: number of permutations, at least 2.
        seed: seed of the permutations.
        smaller: whether a smaller measurement is more extreme, as for a residual.
        level: coverage of the interval under permutations, in (0, 1).

    Returns:
        The measurement, its distribution under permutations, and the p-value. All but the measurement are nan if a
        measurement is not finite, such as a correlation with a constant channel.

    Raises:
        ValueError: fewer than two draws, or a level outside (0, 1).

    Example:
        >>> distances = torch.tensor([[0.0, 1, 5, 6], [1, 0, 5, 6], [5, 5, 0, 2], [6, 6, 2, 0]])
        >>> from posenc.measure.modularity import pair_auc
        >>> chance = permutation_test(lambda modules: pair_auc(distances, modules), torch.tensor([0, 0, 1, 1]))
        >>> chance.found, round(chance.mean, 1), chance.p > 0.3  # one of three ways to pair four tokens
        (1.0, 0.5, True)
    """
    if draws < 2 or not 0 < level < 1:
        raise ValueError(
            f"a null distribution needs draws >= 2 and a level between 0 and 1; got draws={draws}, level={level:g}."
        )
    generator = torch.Generator().manual_seed(seed)
    found = measured(rows)
    drawn = torch.tensor(
        [measured(rows[torch.randperm(len(rows), generator=generator)]) for _ in range(draws)], dtype=torch.float64
    )
    if not (math.isfinite(found) and bool(drawn.isfinite().all())):
        return PermutationTest(found, math.nan, math.nan, math.nan, math.nan, math.nan, level)
    slack = 1e-12 * max(abs(found), float(drawn.abs().max()))  # equal arrangements may differ by rounding
    as_far = int(((drawn <= found + slack) if smaller else (drawn >= found - slack)).sum())
    low, high = torch.quantile(drawn, torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)).tolist()
    sd = float(drawn.std())
    return PermutationTest(found, float(drawn.mean()), sd, low, high, (1 + as_far) / (1 + draws), level)
