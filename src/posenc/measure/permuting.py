"""What a measurement would be if it were not known which token is which: the null of every claim about arrangement."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Chance:
    """A measurement beside what it is under permutations.

    found: with the true rows. mean, sd: under permutations. low, high: the interval that holds ``level`` of these. p:
    the share of permutations that come as far as the true rows, which count as one of them: ``(1 + those) / (1 +
    draws)``, one-sided, so never 0.
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
        """How many standard deviations the measurement lies above chance; nan where chance has no spread."""
        return (self.found - self.mean) / self.sd if self.sd else math.nan


def by_chance(
    measured: Callable[[Tensor], float],
    rows: Tensor,
    *,
    draws: int = 1000,
    seed: int = 0,
    smaller: bool = False,
    level: float = 0.95,
) -> Chance:
    """``measured(rows)`` and what it is for the same rows in random orders.

    rows: what is known of each token, one row a token: its module's number ``(N,)``, or its true place ``(N, P)``.
    smaller: whether a smaller measurement, as a residual, comes further.

    >>> distances = torch.tensor([[0.0, 1, 5, 6], [1, 0, 5, 6], [5, 5, 0, 2], [6, 6, 2, 0]])
    >>> from posenc.measure.modularity import pair_auc
    >>> chance = by_chance(lambda modules: pair_auc(distances, modules), torch.tensor([0, 0, 1, 1]))
    >>> chance.found, round(chance.mean, 1), chance.p > 0.3  # a third of all ways to pair four tokens are this one
    (1.0, 0.5, True)

    Raises ValueError for fewer than two draws or a level outside (0, 1).
    """
    if draws < 2 or not 0 < level < 1:
        raise ValueError(
            f"a null has a spread from two draws up and a level between 0 and 1; got draws={draws}, level={level:g}."
        )
    generator = torch.Generator().manual_seed(seed)
    found = measured(rows)
    drawn = torch.tensor(
        [measured(rows[torch.randperm(len(rows), generator=generator)]) for _ in range(draws)], dtype=torch.float64
    )
    slack = 1e-12 * max(1.0, abs(found))  # the same arrangement in another order may differ by rounding
    as_far = int(((drawn <= found + slack) if smaller else (drawn >= found - slack)).sum())
    low, high = torch.quantile(drawn, torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)).tolist()
    sd = float(drawn.std())
    return Chance(found, float(drawn.mean()), sd, low, high, (1 + as_far) / (1 + draws), level)
