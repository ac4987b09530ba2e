"""What a masked channel is predicted to be without a network: the mean, ridge regression, and the nearest channels.

    mean      0, for channels are standardised
    ridge     x_m = S_mv (S_vv + lambda 1)^-1 x_v          S = X^T X / T of the training frames, m hidden, v visible
    nearest   the mean of the k visible channels that are nearest, by place where it is known, else by correlation

Ridge is the best linear prediction that the training covariance allows for a mask, and the competitor that counts.
With ``P = (S + lambda 1)^-1`` the same prediction is ``-P_mm^-1 P_mv x_v``, so each mask costs one Cholesky
decomposition of the smaller of the two sides, at most ``(N/2)^3 / 3`` multiplications: about a millisecond at N = 360.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from posenc.tasks.recordings.samples import Frames

PENALTIES = (1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0)
"""What lambda is chosen from, in the unit of a channel's variance, which is 1."""
NEAREST = 3
CHOOSING = 200
"""Frames at most on which lambda is chosen."""
HELD = 1 / 3
AT_ONCE = 2**16
"""Frames of which the covariance is summed at once."""

Covariance = Float64[Tensor, "N N"]
Predict = Callable[[Tensor, Tensor, Tensor], Tensor]
"""``(x (n, N), visible (v,), hidden (m,)) -> (n, m)``: samples of one mask, whose two sides are all channels."""


def baselines(
    train: Frames,
    test: Frames,
    hidden: Bool[Tensor, "S N"],
    *,
    at: Int64[Tensor, "S"] | None = None,
    coordinates: np.ndarray | None = None,
    penalty: float | None = None,
    nearest: int = NEAREST,
) -> dict[str, np.ndarray]:
    """The mean squared error of each test recording on its hidden channels, ``(R,)``, in units of a channel's variance.

    hidden: a mask a sample. at: which test frames they are of; without it, of all in their order. coordinates:
    ``(N, axes)``, for what is nearest. penalty: lambda; otherwise ``chosen_penalty``. Samples of one mask are solved
    together, so a few masks over many frames cost little, and a mask a frame about a millisecond each at N = 360.
    Raises ValueError for masks that do not fit the frames, and a test recording without a sample.
    """
    at = torch.arange(len(test)) if at is None else at
    if hidden.shape != (len(at), test.channels) or train.channels != test.channels:
        raise ValueError(
            f"there is one mask a sample over all channels: ({len(at)}, {test.channels}) here, as in training "
            f"({train.channels}); got {tuple(hidden.shape)}."
        )
    whose = test.recording[at]
    counts = torch.bincount(whose, minlength=len(test.names))
    if not bool(counts.all()):
        raise ValueError(
            f"recording {test.names[int(counts.argmin())]!r} has no sample. Draw some of each: drawn(100)."
        )
    s = covariance(train)
    if penalty is None:
        penalty = chosen_penalty(train, hidden)
    near = s
    if coordinates is not None:
        places = torch.as_tensor(coordinates, dtype=torch.float64)
        near = -torch.cdist(places, places)
    ways: Mapping[str, Predict] = {
        "mean": lambda x, visible, hidden: x.new_zeros(len(x), len(hidden)),
        "ridge": ridge(s, penalty),
        "nearest": _nearest(near, nearest),
    }
    found = {}
    for name, predict in ways.items():
        wrong, asked = squared_errors(predict, test.values[at], hidden)
        sums = [torch.zeros(len(test.names), dtype=torch.float64).index_add_(0, whose, part) for part in (wrong, asked)]
        found[name] = (sums[0] / sums[1]).numpy()
    return found


def covariance(frames: Frames, rows: Tensor | None = None) -> Covariance:
    """``X^T X / T`` in float64; the mean of every channel is 0 already. rows: of these frames alone."""
    rows = torch.arange(len(frames)) if rows is None else rows
    total = torch.zeros(frames.channels, frames.channels, dtype=torch.float64)
    for part in rows.split(AT_ONCE):
        x = frames.values[part].double()
        total += x.T @ x
    return total / len(rows)


def ridge(s: Covariance, penalty: float) -> Predict:
    """The prediction of hidden channels from the visible ones by a covariance. Raises ValueError for a penalty that is
    not positive."""
    if not penalty > 0:
        raise ValueError(f"the penalty is more than 0; got {penalty:g}. Leave it out to have it chosen.")
    a = s + penalty * torch.eye(len(s), dtype=s.dtype)
    p = torch.cholesky_inverse(torch.linalg.cholesky(a))

    def predict(x: Tensor, visible: Tensor, hidden: Tensor) -> Tensor:
        seen = x[:, visible].T
        if len(visible) <= len(hidden):
            l = torch.linalg.cholesky(a[visible[:, None], visible])  # noqa: E741
            return (a[hidden[:, None], visible] @ torch.cholesky_solve(seen, l)).T
        l = torch.linalg.cholesky(p[hidden[:, None], hidden])  # noqa: E741
        return -torch.cholesky_solve(p[hidden[:, None], visible] @ seen, l).T

    return predict


def chosen_penalty(train: Frames, hidden: Bool[Tensor, "S N"], *, seed: int = 0) -> float:
    """The lambda of ``PENALTIES`` that predicts best within the training frames: a third of the recordings, drawn, is
    predicted from the others' covariance under (some of) the same masks. A single one gives its last third."""
    generator = torch.Generator().manual_seed(seed)
    count = len(train.names)
    order = torch.randperm(count, generator=generator)
    out = torch.isin(train.recording, order[: max(round(HELD * count), 1)])
    if count == 1:
        out = torch.arange(len(train)) >= round((1 - HELD) * len(train))
    rows = out.nonzero().flatten()
    rows = rows[torch.randperm(len(rows), generator=generator)[:CHOOSING]]
    under = hidden[torch.randint(len(hidden), (len(rows),), generator=generator)]
    s, x = covariance(train, (~out).nonzero().flatten()), train.values[rows]
    return min(PENALTIES, key=lambda penalty: float(squared_errors(ridge(s, penalty), x, under)[0].sum()))


def squared_errors(predict: Predict, x: Tensor, hidden: Bool[Tensor, "S N"]) -> tuple[Tensor, Tensor]:
    """Of each sample, the sum of squared errors on its hidden channels and how many they are, ``(S,)`` float64."""
    x = x.double()
    kinds, which = torch.unique(hidden, dim=0, return_inverse=True)
    wrong = torch.zeros(len(x), dtype=torch.float64)
    samples = which.argsort(stable=True).split(torch.bincount(which).tolist())
    for mask, own in zip(kinds, samples, strict=True):
        m, v = mask.nonzero().flatten(), (~mask).nonzero().flatten()
        rows = x[own]
        wrong[own] = (predict(rows, v, m) - rows[:, m]).square().sum(1)
    return wrong, hidden.sum(1).double()


def _nearest(near: Float64[Tensor, "N N"], k: int) -> Predict:
    def predict(x: Tensor, visible: Tensor, hidden: Tensor) -> Tensor:
        best = near[hidden[:, None], visible].topk(min(k, len(visible)), dim=1).indices
        return x[:, visible[best]].mean(2)

    return predict
