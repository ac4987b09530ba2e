"""The rows of the shape study, and how each trains."""

from __future__ import annotations

from posenc.studies import field_rows
from posenc.studies.field_rows import INSTANT_NGP, Budget, FieldRow
from posenc.training.loop import TrainingConfig

GAUSSIAN = "gaussian-2"
"""Sigma was chosen on Spot, which is what is reported, at the quick scale; the panel sigma sweeps it."""
FIT = ("none", "positional", GAUSSIAN, "siren", "dense", "hash", "multires", "multires-smoothstep")
SLOPES = ("multires", "multires-smoothstep")
OCCUPANCY = ("none", "basic", "positional", GAUSSIAN, "gaussian-12", "siren", "dense", "hash", "multires")
"""With the sigma chosen for the distance and, since none is swept here, the one that its authors name for shapes."""
COMPARED = ("positional", GAUSSIAN, "siren", "dense", "hash", "multires")
"""What one picture shows over time."""
SIGMAS = (0.5, 1.0, 2.0, 4.0, 8.0, 12.0)
OF_SIGMA = {f"gaussian-{sigma:g}": sigma for sigma in SIGMAS}
RATE, RATES = 5e-3, {"Coordinates": 2e-3, "SIREN": 5e-4}
"""Of Adam: the best of about three for each kind of row, on Spot with one seed. Those of the kinds' own authors, 1e-2
for grids, 1e-3, and 1e-4 for sines, are for longer trainings."""

CYCLES = 8
"""Of the positional mapping at most, along each axis of the cube."""


def row(label: str, budget: Budget) -> FieldRow:
    """Every field's row; "positional" has frequencies for a shape, not for the vertices of a fine grid."""
    if label.lower() == "positional":
        budget = budget._replace(finest=CYCLES)
    return field_rows.row(label, budget)


def training(found: FieldRow, steps: int, batch: int) -> TrainingConfig:
    """How a row trains: the same steps and batches for every row, by instant-ngp's Adam.

    Rates fall to 0 along a cosine from those of `RATES`.
    """
    return TrainingConfig(
        **{**INSTANT_NGP, "lr": RATES.get(found.scheme, RATE)},
        epochs=steps,
        batch=batch,
        decay_steps=steps,
        evaluate_every=max(1, steps // 10),
    )
