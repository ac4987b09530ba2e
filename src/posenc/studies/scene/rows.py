"""The rows of the scene study: those of every field, and ``gaussian-SIGMA-small``, waves behind the grids' network."""

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
ROWS = ("none", FOURIER, FOURIER + SMALL, "dense", "hash", "multires")
MORE = ("positional", "gaussian-4")
SIGMAS = (1.0, 2.0, 4.0, 8.0)
OF_SIGMA = {f"gaussian-{sigma:g}": sigma for sigma in SIGMAS}
WIDE_RATE = 3e-3


def row(label: str, budget: Budget) -> FieldRow:
    """A grid has one hidden layer behind it, as the density of instant-ngp.

    Raises ValueError with the nearest name for a label that nobody has, and where the budget is too small for it.
    """
    if not label.endswith(SMALL):
        found = field_rows.row(label, budget)
        deep = found.network.depth == FieldConfig(outputs=1).depth
        return (
            msgspec.structs.replace(found, network=msgspec.structs.replace(found.network, depth=1)) if deep else found
        )
    large = field_rows.row(label.removesuffix(SMALL), budget)
    if "sigma" not in large.options:
        raise ValueError(f"{label!r} names no Gaussian features; a small row is one of them, as {FOURIER}{SMALL}.")
    options = {**large.options, "dim": SMALL_DIM}
    network = FieldConfig(outputs=budget.outputs, output=budget.output)  # type: ignore[arg-type]
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
