"""The rows of the scene study: those of every field, and ``gaussian-SIGMA-small`` and ``none-small``, waves and bare
coordinates behind the grids' network."""

from __future__ import annotations

from typing import Any

import msgspec

from posenc.models.field import FieldConfig
from posenc.studies import field_rows
from posenc.studies.field_rows import INSTANT_NGP, Budget, FieldRow
from posenc.training.loop import TrainingConfig

FOURIER = "gaussian-2"
"""Sigma, cycles a side of the cube, was the best of a few on the other solid at the quick scale."""
SMALL = "-small"
SMALL_DIM = 96
ROWS = ("none", FOURIER, "none" + SMALL, FOURIER + SMALL, "dense", "hash", "multires")
COMPARED = tuple(label for label in ROWS if label != "none" + SMALL)
"""What one picture shows over time."""
MORE = ("positional", "gaussian-4")
SIGMAS = (1.0, 2.0, 4.0, 8.0)
OF_SIGMA = {f"gaussian-{sigma:g}": sigma for sigma in SIGMAS}
WIDE_RATE = 3e-3
CYCLES = 32
"""Of the positional mapping at most, along each side of the cube: pictures of 100 pixels can hold about 43."""


def row(label: str, budget: Budget) -> FieldRow:
    """A grid has one hidden layer behind it, as the density of instant-ngp.

    Raises ValueError with the nearest name for a label that nobody has, and where the budget is too small for it.
    """
    if label.lower() == "positional":
        budget = budget._replace(finest=min(budget.finest, CYCLES))
    if not label.endswith(SMALL):
        found = field_rows.row(label, budget)
        deep = found.network.depth == FieldConfig(outputs=1).depth
        return (
            msgspec.structs.replace(found, network=msgspec.structs.replace(found.network, depth=1)) if deep else found
        )
    large = field_rows.row(label.removesuffix(SMALL), budget)
    if "sigma" not in large.options and large.scheme != "Coordinates":
        raise ValueError(
            f"{label!r} names no waves and no bare coordinates; a small row is one of them, as {FOURIER}{SMALL} or "
            f"none{SMALL}."
        )
    options = {**large.options, **({"dim": SMALL_DIM} if large.options else {})}
    network = FieldConfig(outputs=budget.outputs, output=budget.output, depth=1)  # type: ignore[arg-type]
    return FieldRow(scheme=large.scheme, axes=budget.axes, options=options, network=network)


def training(found: FieldRow, own: dict[str, Any]) -> TrainingConfig:
    """Adam as instant-ngp sets it, with its rate for grids and small networks, and a smaller one for wide networks.

    The smaller rate, and sigma, were chosen on the torus among a few, after as many steps as fit into the time.
    """
    wide = found.network.width > FieldConfig(outputs=1).width
    return TrainingConfig(
        **{**INSTANT_NGP, **({"lr": WIDE_RATE} if wide else {})},
        epochs=own.get("steps") or 1_000_000,
        batch=own["rays"],
        ema=0.95,
        seconds=None if own.get("steps") else own["seconds"],
        evaluate_every=max(1, (own.get("steps") or 1) // 4),
    )
