"""The rows of the image study: every field's, ``ROW@PARAMETERS`` for one of another size, and ``-coarse-to-fine`` for a
grid whose levels open one after the other; and how each trains."""

from __future__ import annotations

from typing import Any

from posenc.studies import field_rows
from posenc.studies.field_rows import INSTANT_NGP, Budget, FieldRow
from posenc.training.loop import TrainingConfig

AUTHORS = "gaussian-10"
"""Sigma as arXiv 2006.10739 chose it for natural images."""
SIX = ("none", "positional", AUTHORS, "dense", "hash", "multires")
NEAR = ("gaussian-5", "gaussian-20")
"""Sigmas besides the authors' own that a choice on held-out pixels may fall on, fitted in full at longer scales."""
SIGMAS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
OF_SIGMA = {f"gaussian-{sigma:g}": sigma for sigma in SIGMAS}
SCALES = ("posenc-8", "posenc-16", "posenc-32", "posenc-64")
"""What the scale of posenc is chosen among; where it is not, half of what the learned pixels can hold."""
GRIDS = ("dense", "hash", "multires")
WAVES = ("none", "basic", "positional", "posenc", "gaussian", "siren")
OPENING = "-coarse-to-fine"
MAPPINGS = ("none", "basic", "posenc", AUTHORS, *GRIDS, f"multires{OPENING}")
INTERPOLATIONS = ("multires-nearest", "multires", "multires-smoothstep")

L2 = 1e-6
"""instant-ngp's weight of the squared weights of the network, not of the table."""
RATE, RATES = 1e-3, {"none": 1e-2, "basic": 1e-2, "siren": 1e-4}
"""Of networks of waves, as their authors set them for natural images; grids have instant-ngp's."""


def row(label: str, budget: Budget) -> FieldRow:
    """Raises ValueError for an unknown label, a size that is no number, or one too small for it."""
    name, at, size = label.partition("@")
    if at:
        if not size.isdigit():
            raise ValueError(f"{label!r} should end in a number of parameters, as {name}@60000; got {size!r}.")
        budget = budget._replace(parameters=int(size))
    found = field_rows.row(name.removesuffix(OPENING), budget)
    if opens(label) and "resolutions" not in found.options:
        raise ValueError(f"{label!r} should be a grid of several levels, as multires{OPENING}.")
    return found


def is_wave(label: str) -> bool:
    """Whether a row is a network of waves, or of none, by its name."""
    return label.partition("-")[0] in WAVES


def grows(label: str) -> bool:
    """Whether a row's steps take hardly longer where it has more parameters: a grid."""
    return label.lower() in field_rows.GRIDS


def opens(label: str) -> bool:
    """Whether the levels of a row open one after the other."""
    return label.partition("@")[0].endswith(OPENING)


def training(label: str, found: FieldRow, own: dict[str, Any]) -> TrainingConfig:
    """How a row trains, for a preset's own limits (``seconds`` or ``steps``).

    Grids: instant-ngp's Adam, batches of 2^14. Networks of waves: the rates of their authors, and batches of a quarter,
    for a step of theirs costs ten times as much.
    """
    grid = found.scheme.endswith("Grid")
    name = label.partition("@")[0].lower()
    rate = {} if grid else {"lr": RATES.get(name, RATE)}
    steps = own.get("steps")
    if opens(label) and not steps:
        raise ValueError(
            f"{label!r} opens its levels by the step, and this fit is limited in time. Use --panels held-out."
        )
    return TrainingConfig(
        **{**INSTANT_NGP, **rate},
        epochs=steps or 1_000_000,
        batch=own.get("batch") or (2**14 if grid else 2**12),
        ema=0.95,
        seconds=None if steps else own["seconds"],
        evaluate_every=max(1, (steps or 1) // 8),
    )
