"""Baselines without a neural network, of scikit-learn.

knn        mean of the 15 nearest training places, weighted by their inverse distances; it reads coordinates alone
gp         regression kriging, of values alone: ridge on the other columns, then a Gaussian process (Matern 3/2, one
           length, with noise) on the coordinates for what ridge leaves, on 1,000 training rows
ridge      linear model with a penalty that its own cross-validation chooses; of classes, logistic regression
boosting   gradient boosting, 300 trees

Ridge and boosting read coordinates and the other columns, and may read the rows of an encoding too.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.tasks.boosting import booster

NEIGHBORS, TREES, PROCESS_ROWS = 15, 300, 1000
PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
LOGISTIC_STEPS = 300
LENGTHS = (0.005, 5.0)
"""Shortest and longest length of the kernel, in halves of the region."""


class BaselineRows(NamedTuple):
    """Rows that a baseline reads.

    Attributes:
        places: Coordinates ``(N, P)``, with the rows of an encoding if there is one; ``(N, 0)`` for none.
        columns: Other columns ``(N, F)``; NaN is allowed for boosting.
        targets: Standardized values ``(N,)``, or class numbers.
        train: Numbers of the training rows.
        tested: Numbers of the rows to predict.
    """

    places: NDArray[Any]
    columns: NDArray[Any]
    targets: NDArray[Any]
    train: NDArray[np.int64]
    tested: NDArray[np.int64]


class Predictions(NamedTuple):
    """Predictions of a baseline.

    Attributes:
        outputs: Values ``(M, 1)``, or probabilities ``(M, C)``.
        deviations: Standard deviation of each value ``(M,)`` with the noise; None for a baseline that has none.
    """

    outputs: NDArray[np.float64]
    deviations: NDArray[np.float64] | None = None


def predicted(name: str, rows: BaselineRows, seed: int) -> Predictions:
    """Train a baseline and predict.

    Args:
        name: "knn", "gp", "ridge" or "boosting".
        rows: What it reads.
        seed: Seed of the baseline.

    Returns:
        Values, or probabilities of the classes that numbers in ``targets`` name; of "gp" with standard deviations.
    """
    if name == "gp":
        return _kriging(rows, seed)
    of_classes, train = np.issubdtype(rows.targets.dtype, np.integer), rows.targets[rows.train]
    known = np.unique(train)
    if of_classes and len(known) == 1:
        return Predictions(np.eye(int(rows.targets.max()) + 1)[np.full(len(rows.tested), known[0])])
    read = rows.places if name == "knn" else np.concatenate([rows.places, rows.columns], 1)
    if not read.shape[1]:
        read = np.ones((len(read), 1))
    model = _model(name, seed, of_classes=of_classes, count=len(train))
    model.fit(read[rows.train], train)
    if not of_classes:
        return Predictions(np.asarray(model.predict(read[rows.tested]), float)[:, None])
    made = np.zeros((len(rows.tested), int(rows.targets.max()) + 1))
    made[:, np.asarray(model.classes_, np.int64)] = model.predict_proba(read[rows.tested])
    return Predictions(made)


def _model(name: str, seed: int, *, of_classes: bool, count: int) -> Any:
    """The untrained model of scikit-learn."""
    kind = "Classifier" if of_classes else "Regressor"
    if name == "boosting":
        return booster(kind, TREES, seed)
    if name == "knn":
        neighbors: Any = importlib.import_module("sklearn.neighbors")
        return getattr(neighbors, f"KNeighbors{kind}")(n_neighbors=min(NEIGHBORS, count), weights="distance")
    linear: Any = importlib.import_module("sklearn.linear_model")
    return linear.LogisticRegression(max_iter=LOGISTIC_STEPS) if of_classes else linear.RidgeCV(alphas=PENALTIES)


def _kriging(rows: BaselineRows, seed: int) -> Predictions:
    """Ridge on the other columns, and a Gaussian process on the coordinates for its errors.

    The deviations are those of the process with its noise. They do not contain the error of ridge.
    """
    linear: Any = importlib.import_module("sklearn.linear_model")
    process: Any = importlib.import_module("sklearn.gaussian_process")
    kernels: Any = importlib.import_module("sklearn.gaussian_process.kernels")
    columns = rows.columns if rows.columns.shape[1] else np.ones((len(rows.columns), 1))
    trend = linear.RidgeCV(alphas=PENALTIES).fit(columns[rows.train], rows.targets[rows.train])
    train = rows.train
    if len(train) > PROCESS_ROWS:
        train = np.random.default_rng(seed).choice(train, PROCESS_ROWS, replace=False)
    errors = rows.targets[train] - trend.predict(columns[train])
    kernel = kernels.ConstantKernel(0.5, (1e-3, 1e2)) * kernels.Matern(0.2, LENGTHS, nu=1.5)
    model = process.GaussianProcessRegressor(kernel + kernels.WhiteKernel(0.2, (1e-4, 1e1)), random_state=seed % 2**32)
    with warnings.catch_warnings():  # a length at its bound is no fault: the data have no shorter or longer one
        warnings.simplefilter("ignore")
        model.fit(rows.places[train], errors)
    errors_there, deviations = model.predict(rows.places[rows.tested], return_std=True)
    return Predictions((trend.predict(columns[rows.tested]) + errors_there).astype(float)[:, None], deviations)
