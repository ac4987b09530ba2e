"""Baseline predictions of hidden channels without a network: the mean, ridge regression, and the nearest channels.

    mean      0, since channels are standardized
    ridge     x_m = S_mv (S_vv + lambda 1)^-1 x_v          S = X^T X / T of the training frames, m hidden, v visible
    nearest   mean of the k nearest visible channels, by distance where coordinates are known, else by correlation

Ridge regression is the best linear prediction from the training covariance, and so the baseline to beat. With
``P = (S + lambda 1)^-1`` the same prediction is ``-P_mm^-1 P_mv x_v``. Each mask costs one Cholesky decomposition of
the smaller of the two blocks, at most ``(N/2)^3 / 3`` multiplications: about a millisecond at N = 360.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from posenc.measure.distances import token_distances
from posenc.workbench.tasks.recordings.samples import Frames

PENALTIES = (1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Candidate values of lambda, in units of a channel's variance, which is 1."""
NEAREST = 3
"""Default number k of nearest channels."""
TUNING_FRAMES = 200
"""Largest number of frames on which lambda is chosen."""
TUNING_SHARE = 1 / 3
"""Share of the training recordings on which lambda is chosen."""
CHUNK_FRAMES = 2**16
"""Number of frames summed at a time for the covariance."""

Covariance = Float64[Tensor, "N N"]
Predictor = Callable[[Tensor, Tensor, Tensor], Tensor]
"""``(x (n, N), visible (v,), hidden (m,)) -> (n, m)``: predicts hidden channels in n samples with the same mask."""


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
    """Mean squared error of each baseline on the hidden channels of each test recording.

    Samples with the same mask are solved together. A few masks over many frames are cheap; one mask per frame costs
    about a millisecond each at N = 360.

    Args:
        train: Training frames.
        test: Test frames.
        hidden: ``(S, N)``: one mask per sample, True for hidden channels.
        at: ``(S,)``: index of the test frame of each sample; by default all frames in order.
        coordinates: ``(N, axes)`` positions of the channels, for the nearest channels.
        penalty: lambda; by default ``choose_penalty``.
        nearest: Number k of nearest channels.

    Returns:
        Errors ``(R,)`` of the R test recordings by name of the baseline, in units of a channel's variance.

    Raises:
        ValueError: The masks do not fit the frames, or a test recording has no sample.
    """
    at = torch.arange(len(test)) if at is None else at
    if hidden.shape != (len(at), test.channels) or train.channels != test.channels:
        raise ValueError(
            f"masks have one row per sample and one column per channel: ({len(at)}, {test.channels}) here, with the "
            f"{train.channels} channels of training; got {tuple(hidden.shape)}."
        )
    recording = test.recording[at]
    counts = torch.bincount(recording, minlength=len(test.names))
    if not bool(counts.all()):
        raise ValueError(
            f"recording {test.names[int(counts.argmin())]!r} has no sample. Sample each recording: sample(100)."
        )
    s = covariance(train)
    if penalty is None:
        penalty = choose_penalty(train, hidden)
    similarity = s
    if coordinates is not None:
        similarity = -token_distances(torch.as_tensor(coordinates, dtype=torch.float64))
    predictors: Mapping[str, Predictor] = {
        "mean": lambda x, visible, hidden: x.new_zeros(len(x), len(hidden)),
        "ridge": ridge(s, penalty),
        "nearest": _nearest_mean(similarity, nearest),
    }
    errors = {}
    for name, predict in predictors.items():
        squared, counted = squared_errors(predict, test.values[at], hidden)
        totals = [
            torch.zeros(len(test.names), dtype=torch.float64).index_add_(0, recording, part)
            for part in (squared, counted)
        ]
        errors[name] = (totals[0] / totals[1]).numpy()
    return errors


def covariance(frames: Frames, rows: Tensor | None = None) -> Covariance:
    """Covariance ``X^T X / T`` in float64, of the frames ``rows`` or of all; every channel has mean 0 already."""
    rows = torch.arange(len(frames)) if rows is None else rows
    total = torch.zeros(frames.channels, frames.channels, dtype=torch.float64)
    for part in rows.split(CHUNK_FRAMES):
        x = frames.values[part].double()
        total += x.T @ x
    return total / len(rows)


def ridge(s: Covariance, penalty: float) -> Predictor:
    """Ridge regression from a covariance, as a predictor of hidden channels.

    Raises:
        ValueError: ``penalty`` is not positive.
    """
    if not penalty > 0:
        raise ValueError(f"the penalty is more than 0; got {penalty:g}. Leave it out to have it chosen.")
    a = s + penalty * torch.eye(len(s), dtype=s.dtype)
    p = torch.cholesky_inverse(torch.linalg.cholesky(a))

    def predict(x: Tensor, visible: Tensor, hidden: Tensor) -> Tensor:
        known = x[:, visible].T
        if len(visible) <= len(hidden):
            l = torch.linalg.cholesky(a[visible[:, None], visible])  # noqa: E741
            return (a[hidden[:, None], visible] @ torch.cholesky_solve(known, l)).T
        l = torch.linalg.cholesky(p[hidden[:, None], hidden])  # noqa: E741
        return -torch.cholesky_solve(p[hidden[:, None], visible] @ known, l).T

    return predict


def choose_penalty(train: Frames, hidden: Bool[Tensor, "S N"], *, seed: int = 0) -> float:
    """Choose lambda from ``PENALTIES`` by its error within the training frames.

    A random third of the recordings is predicted from the covariance of the others, under some of the given masks. A
    single recording gives its last third.

    Args:
        train: Training frames.
        hidden: ``(S, N)`` masks.
        seed: Seed of the recordings, frames and masks drawn.
    """
    generator = torch.Generator().manual_seed(seed)
    count = len(train.names)
    order = torch.randperm(count, generator=generator)
    out = torch.isin(train.recording, order[: max(round(TUNING_SHARE * count), 1)])
    if count == 1:
        out = torch.arange(len(train)) >= round((1 - TUNING_SHARE) * len(train))
    rows = out.nonzero().flatten()
    rows = rows[torch.randperm(len(rows), generator=generator)[:TUNING_FRAMES]]
    masks = hidden[torch.randint(len(hidden), (len(rows),), generator=generator)]
    s, x = covariance(train, (~out).nonzero().flatten()), train.values[rows]
    return min(PENALTIES, key=lambda penalty: float(squared_errors(ridge(s, penalty), x, masks)[0].sum()))


def squared_errors(predict: Predictor, x: Tensor, hidden: Bool[Tensor, "S N"]) -> tuple[Tensor, Tensor]:
    """Per sample ``(S,)``, the sum of squared errors on its hidden channels, and the number of hidden channels."""
    x = x.double()
    kinds, which = torch.unique(hidden, dim=0, return_inverse=True)
    wrong = torch.zeros(len(x), dtype=torch.float64)
    samples = which.argsort(stable=True).split(torch.bincount(which).tolist())
    for mask, own in zip(kinds, samples, strict=True):
        m, v = mask.nonzero().flatten(), (~mask).nonzero().flatten()
        rows = x[own]
        wrong[own] = (predict(rows, v, m) - rows[:, m]).square().sum(1)
    return wrong, hidden.sum(1).double()


def _nearest_mean(similarity: Float64[Tensor, "N N"], k: int) -> Predictor:
    """Predictor that averages the k nearest visible channels."""

    def predict(x: Tensor, visible: Tensor, hidden: Tensor) -> Tensor:
        best = similarity[hidden[:, None], visible].topk(min(k, len(visible)), dim=1).indices
        return x[:, visible[best]].mean(2)

    return predict
