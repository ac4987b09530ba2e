"""The rows of the shape study, and how each trains."""

from __future__ import annotations

from posenc.studies import field_rows
from posenc.studies.field_rows import Budget, FieldRow
from posenc.training.loop import TrainingConfig

GAUSSIAN = "gaussian-1"
FIT = ("none", "positional", GAUSSIAN, "siren", "dense", "hash", "multires", "multires-smoothstep")
SLOPES = ("siren", "multires", "multires-smoothstep")
OCCUPANCY = ("none", "basic", "positional", GAUSSIAN, "siren", "dense", "hash", "multires")
SIGMAS = (0.5, 1.0, 2.0, 4.0, 8.0, 12.0)
OF_SIGMA = {f"gaussian-{sigma:g}": sigma for sigma in SIGMAS}
CYCLES = 8
"""Of the positional mapping at most, along each axis of the cube."""


def row(label: str, budget: Budget) -> FieldRow:
    """Every field's row; "positional" has frequencies for a shape, not for the vertices of a fine grid."""
    if label.lower() == "positional":
        budget = budget._replace(finest=CYCLES)
    return field_rows.row(label, budget)


def training(found: FieldRow, own: dict) -> TrainingConfig:
    """How a row trains, for a preset's own limits (``seconds`` or ``steps``).

    Adam with instant-ngp's betas and eps. Rates were chosen for each kind on Spot, one seed, from three; those of the
    kinds' own authors (1e-2, 1e-3, 1e-4) are for longer trainings. Batches of networks of waves are half as large,
    for a step of theirs costs more.
    """
    grid = found.scheme.endswith("Grid")
    rate = 5e-3 if grid else 5e-4 if found.network.activation == "sine" else 2e-3
    steps = own.get("steps")
    return TrainingConfig(
        epochs=steps or 1_000_000,
        batch=own["batch"] if grid else max(1, own["batch"] // 2),
        lr=rate,
        optimiser="adam",
        betas=(0.9, 0.99),
        eps=1e-15,
        ema=0.95,
        seconds=None if steps else own["seconds"],
        evaluate_every=max(1, (steps or 1) // 8),
    )
