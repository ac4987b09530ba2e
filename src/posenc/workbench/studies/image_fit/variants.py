"""Variants of the image study, and the training configuration of each.

Labels are those of ``shared.field_variants``. ``LABEL@PARAMETERS`` has another parameter count, and
``LABEL-coarse-to-fine`` activates the levels of a multi-resolution grid one after the other.
"""

from __future__ import annotations

from posenc.lookup.scheme_reference import split_view
from posenc.workbench.studies.image_fit.presets import Limit
from posenc.workbench.studies.shared import field_variants, position_views
from posenc.workbench.studies.shared.field_variants import INSTANT_NGP, Budget, FieldVariant
from posenc.workbench.training.config import TrainingConfig

PUBLISHED_SIGMA = "gaussian-10"
"""Gaussian features with the sigma that arXiv 2006.10739 chose for natural images."""
COMPARED = ("none", "positional", PUBLISHED_SIGMA, "dense", "hash", "multires")
"""Variants of the main comparison."""
NEAR_SIGMAS = ("gaussian-5", "gaussian-20")
"""Further candidates for the selection of sigma; they are also fitted to every pixel if sigma is selected."""
SIGMAS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
SIGMA_OF = {f"gaussian-{sigma:g}": sigma for sigma in SIGMAS}
POSENC_SCALES = ("posenc-8", "posenc-16", "posenc-32", "posenc-64")
"""Scales of posenc to choose from. Plain "posenc" has half of the highest frequency that its training pixels hold."""
GRIDS = ("dense", "hash", "multires")
GRIDLESS = ("none", "basic", "positional", "posenc", "gaussian", "siren")
COARSE_TO_FINE = "-coarse-to-fine"
MAPPINGS = ("none", "basic", "posenc", PUBLISHED_SIGMA, *GRIDS, f"multires{COARSE_TO_FINE}")
"""Variants of the comparison on held-out pixels."""
INTERPOLATIONS = ("multires-nearest", "multires", "multires-smoothstep")

L2 = 1e-6
"""Weight of the squared weights of the network in the loss, as in instant-ngp; the table is not regularized."""
RATE, RATES = 1e-3, {"none": 1e-2, "basic": 1e-2, "siren": 1e-4}
"""Learning rates of networks without a grid, as their authors set them for natural images."""


def variant(label: str, budget: Budget) -> FieldVariant:
    """Scheme and network of a label.

    Raises:
        ValueError: The label is unknown, its size is not a number, or it is too small.
    """
    label, view = split_view(label)
    try:
        position_views.refuse_view(view, field_variants.views(budget.axes))
    except ValueError as error:
        raise ValueError(f"{error} A number of parameters is possible too: {label}@60000.") from None
    name, at, size = label.partition("@")
    if at:
        if not size.isdigit():
            raise ValueError(f"{label!r} should end in a number of parameters, such as {name}@60000; got {size!r}.")
        budget = budget._replace(parameters=int(size))
    field = field_variants.field_variant(name.removesuffix(COARSE_TO_FINE), budget)
    if is_coarse_to_fine(label) and "resolutions" not in field.options:
        raise ValueError(f"{label!r} should be a grid of several levels, such as multires{COARSE_TO_FINE}.")
    return field


def is_gridless(label: str) -> bool:
    """Return True if a label names Fourier features, sines or bare coordinates."""
    return label.partition("-")[0] in GRIDLESS


def is_grid(label: str) -> bool:
    """Return True if a label names a grid. The time of a step of a grid hardly depends on its parameter count."""
    return label.lower() in field_variants.GRIDS


def is_coarse_to_fine(label: str) -> bool:
    """Return True if the levels of a variant are activated one after the other."""
    return label.partition("@")[0].endswith(COARSE_TO_FINE)


def training(label: str, field: FieldVariant, limit: Limit) -> TrainingConfig:
    """Training configuration of a variant.

    Grids have instant-ngp's Adam and batches of 2^14 pixels. Other networks have the learning rates of their authors
    and batches of 2^12 pixels, because their steps cost ten times as much.

    Args:
        label: Label of the variant.
        field: The variant.
        limit: Seconds or steps of the training.

    Raises:
        ValueError: A coarse-to-fine variant is limited in time.
    """
    grid = field.scheme.endswith("Grid")
    rate = {} if grid else {"lr": RATES.get(label.partition("@")[0].lower(), RATE)}
    if is_coarse_to_fine(label) and not limit.steps:
        raise ValueError(
            f"{label!r} activates its levels by step number, and this fit is limited in time. Use --panels held-out, "
            "or --set steps=1000."
        )
    return TrainingConfig(
        **{**INSTANT_NGP, **rate},
        epochs=limit.steps or 1_000_000,
        batch=limit.batch or (2**14 if grid else 2**12),
        ema=0.95,
        seconds=None if limit.steps else limit.seconds,
        evaluate_every=max(1, (limit.steps or 1) // 8),
    )
