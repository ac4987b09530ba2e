"""Gradient boosting of scikit-learn, which the baselines of graphs and of series share."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Literal


def has_boosting() -> bool:
    """True if scikit-learn is installed."""
    return importlib.util.find_spec("sklearn") is not None


def booster(kind: Literal["Classifier", "Regressor"], seed: int, **options: Any) -> Any:
    """Gradient boosting on histograms of the columns, untrained.

    Args:
        kind: "Classifier" for classes, "Regressor" for values.
        seed: Seed of the boosting.
        **options: Further arguments of scikit-learn's ``HistGradientBoostingClassifier`` or ``..Regressor``.

    Returns:
        The model of scikit-learn.
    """
    ensemble: Any = importlib.import_module("sklearn.ensemble")
    made = getattr(ensemble, f"HistGradientBoosting{kind}")
    return made(early_stopping=False, random_state=seed % 2**32, **options)
