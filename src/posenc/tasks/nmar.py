"""The simulated network: time series whose modules are known, hidden in a scrambled order.

    x_i(t) = sum_{k=1}^{p} w_ik x_i(t-k) + sum_{j in C_i, j != i} lambda_ij sin x_j(t-1)
             + sum_{j not in C_i} eta_ij sin x_j(t-1) + eps_i(t),            eps ~ N(0, 0.2^2)
    w ~ U(.2, .5),  lambda ~ U(.02, .2),  eta ~ U(.005, .01),  p = 3 lags;  three modules C of five nodes

Source: arXiv 2406.08272, appendix A.4 ("nonlinear multivariate autoregressive model"). Read literally it diverges: the
lags' weights sum to 1.05 on average, and the sine bounds the coupling alone. reading="average" divides ``w`` by ``p``,
so that the past enters as a weighted mean of the lags; the error of the best linear prediction of half the nodes from
the others is then .047 to .050 (by network), where the paper reports .049. That this is what was run is inferred from
those numbers.
N(0, 0.2) is taken as a standard deviation: as a variance the error would be .23.

>>> network = simulate(NMAR(), 2000, seed=0)
>>> network.series.shape, network.modules.tolist()
((15, 2000), [2, 2, 0, 2, 0, 0, 1, 1, 2, 1, 1, 0, 0, 1, 2])
>>> 0.045 < optimal_linear_error(network.series) < 0.05
True
>>> diverges_at(NMAR(reading="literal"), seed=0)
188
>>> diverges_at(NMAR(), seed=0) is None
True
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from posenc.tasks.recordings.samples import masks

BURN_IN = 500
"""Steps before the first that is given out: the start from zeros is forgotten by then."""
BLOWN_UP = 1e12
TRIES = 2000
"""Steps within which a literal reading is looked at."""
Range = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class NMAR:
    """sizes: nodes of each module. lags: p. reading: "average" divides ``w`` by the lags, "literal" does not and
    diverges. w, within, between: what w, lambda and eta are drawn from, uniformly. noise: standard deviation of eps.

    Raises ValueError for no module, an empty one, no lag or negative noise.
    """

    sizes: tuple[int, ...] = (5, 5, 5)
    lags: int = 3
    reading: Literal["average", "literal"] = "average"
    w: Range = (0.2, 0.5)
    within: Range = (0.02, 0.2)
    between: Range = (0.005, 0.01)
    noise: float = 0.2

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1 or self.nodes < 2 or self.lags < 1 or not self.noise > 0:
            raise ValueError(
                "a network has modules of at least one node, two nodes in all, a lag and noise; got "
                f"sizes={self.sizes}, lags={self.lags}, noise={self.noise:g}."
            )
        if self.reading not in ("average", "literal"):
            raise ValueError(f"the lags are read as 'average' or 'literal'; got reading={self.reading!r}.")

    @property
    def nodes(self) -> int:
        return sum(self.sizes)


@dataclasses.dataclass(frozen=True, eq=False)
class Network:
    """series: ``(N, T)``. modules: the number of each node's module, ``(N,)``. order: node n is the ``order[n]``-th of
    the network in the order of its modules."""

    series: NDArray[np.float64]
    modules: NDArray[np.int64]
    order: NDArray[np.int64]


def simulate(config: NMAR, steps: int, seed: int, *, run: int = 0) -> Network:
    """``steps`` times of the network that the seed draws, its nodes in a random order.

    run: another number gives other noise to the same network, as fresh samples to test with.
    Raises ValueError where it diverges, with the step at which it does, and for no step.
    """
    if steps < 1:
        raise ValueError(f"at least one step is simulated; got steps={steps}.")
    w, coupling, order = _drawn(config, seed)
    x, blown = _run(config, w, coupling, BURN_IN + steps, (seed, run))
    if blown is not None:
        raise ValueError(
            f"this network diverges: it passes {BLOWN_UP:g} at step {blown}. The lags' weights sum to "
            f"{w.sum(0).mean():.2f} on average and must stay below 1; divide them by their number: reading='average'"
        )
    modules = np.repeat(np.arange(len(config.sizes)), config.sizes)
    return Network(np.ascontiguousarray(x[BURN_IN:, order].T), modules[order], order)


def diverges_at(config: NMAR, seed: int, *, steps: int = TRIES) -> int | None:
    """The step at which some node of the network passes 1e12, or None where none does within ``steps``."""
    w, coupling, _ = _drawn(config, seed)
    return _run(config, w, coupling, steps, (seed, 0))[1]


def _drawn(config: NMAR, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """``w (p, N)``, lambda and eta in one matrix ``(N, N)`` with zeros on its diagonal, and the order of the nodes."""
    chance = np.random.default_rng([seed, 0])
    n, modules = config.nodes, np.repeat(np.arange(len(config.sizes)), config.sizes)
    w = chance.uniform(*config.w, (config.lags, n)) / (config.lags if config.reading == "average" else 1)
    same = modules[:, None] == modules
    coupling = np.where(same, chance.uniform(*config.within, (n, n)), chance.uniform(*config.between, (n, n)))
    np.fill_diagonal(coupling, 0)
    return w, coupling, chance.permutation(n)


def _run(
    config: NMAR, w: NDArray[np.float64], coupling: NDArray[np.float64], steps: int, entropy: tuple[int, int]
) -> tuple[NDArray[np.float64], int | None]:
    """All steps ``(T, N)`` from zeros, or those until one passes 1e12 and which that is, from 1."""
    lags, n = w.shape
    x = np.zeros((lags + steps, n))
    x[lags:] = config.noise * np.random.default_rng([*entropy, 1]).standard_normal((steps, n))
    backwards = w[::-1]
    for t in range(lags, lags + steps):
        x[t] += (backwards * x[t - lags : t]).sum(0) + coupling @ np.sin(x[t - 1])
        if abs(x[t]).max() > BLOWN_UP:
            return x[lags:t], t - lags + 1
    return x[lags:], None


def optimal_linear_error(series: NDArray[np.float64], *, rate: float = 0.5, draws: int = 1000, seed: int = 0) -> float:
    """The mean squared error of the best linear prediction of hidden nodes from visible ones, over random masks.

    ``mean_mask trace(P_mm^-1) / m``, ``P`` the inverse covariance of the series ``(N, T)``, which should be long; in
    their unit squared. Each mask hides exactly ``round(rate N)``. Raises ValueError where that is none or all.
    """
    hidden = masks(draws, len(series), rate, seed=seed)
    precision = torch.from_numpy(np.linalg.inv(np.cov(series)))
    m = hidden.nonzero()[:, 1].reshape(draws, -1)
    return float(torch.linalg.inv(precision[m[:, :, None], m[:, None]]).diagonal(dim1=1, dim2=2).mean())
