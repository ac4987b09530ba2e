"""The rows of the image study: every field's, ``ROW@PARAMETERS`` for one of another size; and how each trains."""

from __future__ import annotations

from posenc.studies import field_rows
from posenc.studies.field_rows import Budget, FieldRow
from posenc.training.loop import TrainingConfig

AUTHORS = "gaussian-10"
"""Sigma as arXiv 2006.10739 chose it for natural images."""
SIX = ("none", "positional", AUTHORS, "dense", "hash", "multires")
NEAR = ("gaussian-5", "gaussian-20")
"""Sigmas besides the authors' own that a choice on held-out pixels may fall on, fitted in full at longer scales."""
MAPPINGS = ("none", "basic", "posenc", AUTHORS, "multires")
SIGMAS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
OF_SIGMA = {f"gaussian-{sigma:g}": sigma for sigma in SIGMAS}
GRIDS = ("dense", "hash", "multires")
INTERPOLATIONS = ("multires-nearest", "multires", "multires-smoothstep")

L2 = 1e-6
"""instant-ngp's weight of the squared weights of the network, not of the table."""


def row(label: str, budget: Budget) -> FieldRow:
    """Raises ValueError for an unknown label, a size that is no number, or one too small for it."""
    name, at, size = label.partition("@")
    if at:
        if not size.isdigit():
            raise ValueError(f"{label!r} should end in a number of parameters, as {name}@60000; got {size!r}.")
        budget = budget._replace(parameters=int(size))
    return field_rows.row(name, budget)


def training(found: FieldRow, own: dict) -> TrainingConfig:
    """How a row trains, for a preset's own limits (``seconds`` or ``steps``).

    Grids: instant-ngp's Adam (rate 1e-2, betas .9 and .99, eps 1e-15), batches of 2^14. Networks of waves: Tancik's
    rate of 1e-3, SIREN's of 1e-4, and batches of a quarter, for a step of theirs costs ten times as much.
    """
    grid = found.scheme.endswith("Grid")
    rate = 1e-2 if grid else 1e-4 if found.network.activation == "sine" else 1e-3
    steps = own.get("steps")
    return TrainingConfig(
        epochs=steps or 1_000_000,
        batch=own.get("batch") or (2**14 if grid else 2**12),
        lr=own.get("lr") or rate,
        optimiser="adam",
        betas=(0.9, 0.99),
        eps=1e-15,
        ema=0.95,
        seconds=None if steps else own["seconds"],
        evaluate_every=max(1, (steps or 1) // 8),
    )
