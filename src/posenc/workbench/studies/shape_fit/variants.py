"""Variants of the shape study, and the training configuration of each."""

from __future__ import annotations

from posenc.workbench.studies.shared import field_variants
from posenc.workbench.studies.shared.field_variants import INSTANT_NGP, Budget, FieldVariant
from posenc.workbench.training.config import TrainingConfig

GAUSSIAN = "gaussian-2"
"""Gaussian features with the sigma that was selected on Spot at the quick preset; the panel sigma sweeps it."""
FIT = ("none", "positional", GAUSSIAN, "siren", "dense", "hash", "multires", "multires-smoothstep")
LATTICES = ("none", "dense", "hash", "multires", *field_variants.FACTORS)
"""Variants of the panel on planes and simplices beside cubic grids."""
EIKONAL_VARIANTS = ("multires", "multires-smoothstep")
OCCUPANCY = ("none", "basic", "positional", GAUSSIAN, "gaussian-12", "siren", "dense", "hash", "multires")
"""Variants of the occupancy panel. Sigma is the one selected for the signed distance, and the published one, 12."""
COMPARED = ("positional", GAUSSIAN, "siren", "dense", "hash", "multires")
"""Variants with priority in the learning curves."""
SIGMAS = (0.5, 1.0, 2.0, 4.0, 8.0, 12.0)
SIGMA_OF = {f"gaussian-{sigma:g}": sigma for sigma in SIGMAS}
RATE, RATES = 5e-3, {"Coordinates": 2e-3, "SIREN": 5e-4}
"""Learning rates of Adam: the best of about three for each kind of field, on Spot with one seed. The published rates,
1e-2 for grids, 1e-3 for Fourier features and 1e-4 for SIREN, are for longer trainings."""

CYCLES = 8
"""Highest frequency of the positional mapping, in cycles along each axis of the cube."""


def field_variant(label: str, budget: Budget) -> FieldVariant:
    """Field of a label; "positional" has frequencies for a shape, not for the vertices of a fine grid."""
    if label.lower() == "positional":
        budget = budget._replace(finest=CYCLES)
    return field_variants.field_variant(label, budget)


def training(field: FieldVariant, steps: int, batch: int) -> TrainingConfig:
    """Training configuration of a field: the same steps and batches for every variant, with the Adam of instant-ngp.

    The learning rate decreases from its entry in `RATES` to 0 along a cosine.
    """
    return TrainingConfig(
        **{**INSTANT_NGP, "lr": RATES.get(field.scheme, RATE)},
        epochs=steps,
        batch=batch,
        decay_steps=steps,
        evaluate_every=max(1, steps // 10),
    )
