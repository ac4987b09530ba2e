"""Encodings of places in scikit-learn: R2 of boosting and of ridge on the California housing table.

    python benchmarks/scikit_learn.py california.csv --out results/scikit-learn-cpu.json

Every model reads the six census columns of a block of houses (age, rooms, bedrooms, population, households, income)
and predicts its median value. The inputs differ in what tells the place: nothing, longitude and latitude, or these with
an encoding by ``PositionEncoder``. Two ways to hold out a fifth: at random, and whole cells of half a degree, so that a
test point has no neighbor in the training set. Each is repeated with other folds and, for random features, other
directions. Intervals are of the mean difference to longitude and latitude on the same folds, with the variance of
repeated cross-validation: Nadeau and Bengio 2003, "Inference for the Generalization Error", section 5.1.

Nothing is reported if a model without a place and one with the mean alone do equally well. No time is measured.
"""

from __future__ import annotations

import importlib
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from command import keep, options
from posenc.adapt.sklearn import PositionEncoder

FOLDS, REPEATS = 5, 3
AT = ["longitude", "latitude"]
CENSUS = ["housing_median_age", "total_rooms", "total_bedrooms", "population", "households", "median_income"]
TARGET = "median_house_value"
NONE, COORDINATES = "no place", "longitude, latitude"
ENCODINGS = {
    "Fourier features, sigma 1": "FourierFeatures(126, sigma=1)",
    "Fourier features, sigma 4": "FourierFeatures(126, sigma=4)",
    "Fourier features, sigma 16": "FourierFeatures(126, sigma=16)",
    "Space2Vec theory, 0.002 to 0.2 radians": "Space2VecTheory(16, r_min=0.002, r_max=0.2)",
    "spherical harmonics, degree 15": "SphericalHarmonics(15)",
}
"""Encodings by label. Their sizes were chosen before the first run and not changed after it."""


def main() -> int:
    parser = options("R2 of boosting and ridge with encodings of places.", REPEATS, of="the cross-validation")
    parser.add_argument("table", type=Path, help="california.csv, with the columns of the California housing data")
    chosen = parser.parse_args()
    table = importlib.import_module("pandas").read_csv(chosen.table)
    found = {
        split: {model: compare(table, split, model, chosen.rounds) for model in ("boosting", "ridge")}
        for split in ("random", "half degrees")
    }
    print(markdown(found))
    keep(chosen, rows=len(table), folds=FOLDS, repeats=chosen.rounds, encodings=ENCODINGS, r2=found)
    return 0


def compare(table: Any, split: str, model: str, repeats: int) -> dict[str, dict[str, float]]:
    """Mean R2 of each input, and its difference to longitude and latitude with an interval."""
    scores = {label: fold_scores(table, split, model, label, repeats) for label in (NONE, COORDINATES, *ENCODINGS)}
    if statistics.mean(scores[NONE]) < 0.1:
        raise SystemExit(f"{model} without a place has an R2 below 0.1 on {split} folds: nothing is reported.")
    found = {}
    for label, each in scores.items():
        mean, half = difference(each, scores[COORDINATES])
        found[label] = {"R2": statistics.mean(each), "gain": mean, "low": mean - half, "high": mean + half}
        print(f"{split}, {model}, {label}: R2 {found[label]['R2']:.3f}, gain {mean:+.3f} ± {half:.3f}", flush=True)
    return found


def markdown(found: Any) -> str:
    """The rows of the document's table: R2 of longitude and latitude, differences to it with intervals."""

    def cell(each: dict[str, float], label: str) -> str:
        if label == COORDINATES:
            return f"R² {each['R2']:.3f}"
        return f"{each['gain']:+.3f} [{each['low']:+.3f}, {each['high']:+.3f}]".replace("-", "−")

    columns = [of_model for split in found.values() for of_model in split.values()]
    rows = ([label, *(cell(column[label], label) for column in columns)] for label in columns[0])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def fold_scores(table: Any, split: str, model: str, label: str, repeats: int) -> list[float]:
    """R2 on each fold of each repeat."""
    X = table[(CENSUS if label == NONE else AT + CENSUS)]
    y = table[TARGET].to_numpy() / 1e5
    scores = []
    for repeat in range(repeats):
        for train, test in folds(table, split, repeat):
            fitted = pipeline(model, label, repeat).fit(X.iloc[train], y[train])
            scores.append(float(fitted.score(X.iloc[test], y[test])))
    return scores


def folds(table: Any, split: str, repeat: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Row numbers of training and test sets."""
    selection = importlib.import_module("sklearn.model_selection")
    if split == "random":
        return selection.KFold(FOLDS, shuffle=True, random_state=repeat).split(table)
    return selection.GroupKFold(FOLDS, shuffle=True, random_state=repeat).split(table, groups=cells(table))


def cells(table: Any) -> np.ndarray:
    """Number of the cell of half a degree in which each row lies."""
    corners = np.floor(2 * table[AT].to_numpy()).astype(int)
    return np.unique(corners, axis=0, return_inverse=True)[1].ravel()


def pipeline(model: str, label: str, seed: int) -> Any:
    """The encoding, if there is one, and the model."""
    make: Any = importlib.import_module("sklearn.pipeline").make_pipeline
    steps = []
    if label in ENCODINGS:
        steps.append(PositionEncoder(ENCODINGS[label], columns=AT, kind="sphere", keep="all", random_state=seed))
    if model == "boosting":
        boosting = importlib.import_module("sklearn.ensemble").HistGradientBoostingRegressor
        return make(*steps, boosting(early_stopping=False, random_state=seed))
    imputer = importlib.import_module("sklearn.impute").SimpleImputer
    scaler = importlib.import_module("sklearn.preprocessing").StandardScaler
    ridge = importlib.import_module("sklearn.linear_model").RidgeCV
    return make(*steps, imputer(strategy="median"), scaler(), ridge(alphas=np.logspace(-2, 4, 13)))


def difference(scores: list[float], reference: list[float]) -> tuple[float, float]:
    """Mean paired difference over repeated folds, and half its 95 % interval (Nadeau and Bengio 2003)."""
    pairs = [score - other for score, other in zip(scores, reference, strict=True)]
    variance = statistics.variance(pairs) * (1 / len(pairs) + 1 / (FOLDS - 1))
    return statistics.mean(pairs), float(stats.t.ppf(0.975, len(pairs) - 1)) * math.sqrt(variance)


if __name__ == "__main__":
    raise SystemExit(main())
