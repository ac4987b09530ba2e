"""Targets of places: values in training standard deviations, perhaps of their logarithms, or classes; and scores."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from posenc.workbench.data.places import PlaceTable

TINY = 1e-12
"""Smallest probability, whose logarithm is finite."""


def wants_logarithm(values: NDArray[np.float64]) -> bool:
    """True if the logarithms of positive values are less skewed than the values.

    Args:
        values: Values ``(N,)``.

    Returns:
        True if models should predict the logarithm.
    """
    return bool(values.min() > 0 and abs(_skewness(np.log(values))) < abs(_skewness(values)))


def _skewness(values: NDArray[np.float64]) -> float:
    apart = values - values.mean()
    spread = float(np.sqrt((apart**2).mean()))
    return float((apart**3).mean()) / spread**3 if spread > 0 else 0.0


class Targets:
    """Targets of a table, as a model learns them.

    Args:
        table: The table.
        train: Numbers of the training rows.
        logarithm: True to learn logarithms of values.
    """

    def __init__(self, table: PlaceTable, train: NDArray[np.int64], *, logarithm: bool) -> None:
        self.classes = len(table.classes)
        self.logarithm = logarithm and not self.classes
        self.raw = np.log(table.targets) if self.logarithm else table.targets
        self.mean, self.scale = 0.0, 1.0
        if not self.classes:
            self.mean = float(self.raw[train].mean())
            self.scale = float(self.raw[train].std()) or 1.0

    @property
    def outputs(self) -> int:
        """Outputs of a model: logits of the classes, or one value."""
        return self.classes or 1

    def learned(self, rows: NDArray[np.int64]) -> Tensor:
        """Class numbers ``(M,)``, or standardized values ``(M, 1)``, of rows."""
        if self.classes:
            return torch.from_numpy(self.raw[rows])
        return torch.from_numpy((self.raw[rows] - self.mean) / self.scale).float()[:, None]

    def loss(self, outputs: Tensor, true: Tensor) -> Tensor:
        """Cross-entropy of logits, or mean squared error of standardized values."""
        return functional.cross_entropy(outputs, true) if self.classes else functional.mse_loss(outputs, true)

    def scores(self, outputs: Tensor, rows: NDArray[np.int64]) -> dict[str, float]:
        """Scores of outputs for rows.

        Args:
            outputs: Logits ``(M, C)``, or standardized values ``(M, 1)``.
            rows: Numbers of the rows.

        Returns:
            "accuracy" and "loss", or "r2", "rmse" and "mae" in units of the target (of its logarithm).
        """
        true = self.learned(rows)
        if self.classes:
            right = (outputs.argmax(-1) == true).double().mean()
            return {"accuracy": float(right), "loss": float(functional.cross_entropy(outputs, true))}
        apart = (outputs[:, 0].double() - true[:, 0].double()).numpy()
        spread = (true[:, 0].double() - true[:, 0].double().mean()).numpy()
        size = float((spread**2).mean())
        rmse = float(np.sqrt((apart**2).mean()))
        return {
            "r2": 1 - rmse**2 / size if size > 0 else 0.0,
            "rmse": rmse * self.scale,
            "mae": float(np.abs(apart).mean()) * self.scale,
        }

    def predicted(self, outputs: Tensor) -> NDArray[np.float32]:
        """Predictions for a map: the most probable class, or the value in units of the target (of its logarithm)."""
        if self.classes:
            return outputs.argmax(-1).numpy().astype(np.float32)
        return (outputs[:, 0].double().numpy() * self.scale + self.mean).astype(np.float32)
