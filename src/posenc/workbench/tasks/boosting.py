"""Gradient boosting of scikit-learn, which the baselines of graphs and of series share."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Literal


def has_boosting() -> bool:
    """True if scikit-learn is installed."""
    return importlib.util.find_spec("sklearn") is not None


USUAL_LEAF = 20
"""Fewest rows of a leaf, as in scikit-learn."""


def booster(kind: Literal["Classifier", "Regressor"], iterations: int, seed: int, *, leaf: int = USUAL_LEAF) -> Any:
    """Gradient boosting on histograms of the columns, untrained.

    Args:
        kind: "Classifier" for classes, "Regressor" for values.
        iterations: Number of trees, for each class if there are more than two.
        seed: Seed of the boosting.
        leaf: Fewest rows of a leaf.

    Returns:
        The model of scikit-learn.
    """
    ensemble: Any = importlib.import_module("sklearn.ensemble")
    options: dict[str, Any] = {"max_iter": iterations, "min_samples_leaf": leaf, "random_state": seed % 2**32}
    return getattr(ensemble, f"HistGradientBoosting{kind}")(early_stopping=False, **options)
